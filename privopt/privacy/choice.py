"""Who is asked: an accountant by its name, and the refusal of what it does not understand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import dp_accounting as dp

from privopt.arguments import described, suggestion
from privopt.privacy.accountants import ACCOUNTANTS, Respondent
from privopt.privacy.grouping import bracket
from privopt.privacy.leaves import first_unsupported
from privopt.privacy.parameters import flaw
from privopt.spec import Relation

__all__ = ["UnsupportedEventError", "check_supported", "named"]


class UnsupportedEventError(ValueError):
    """An accountant was asked about an event that it does not understand."""


def named(
    accountant: Respondent[object, object] | str,
    known: Sequence[Respondent[object, object]] = ACCOUNTANTS,
) -> Respondent[object, object]:
    """The one of ``known`` with this name, or the only one whose name starts with it.

    Accents and case do not count. An instance, of whatever class, is returned as it is.

    Raises
    ------
    ValueError
        If it is neither an instance nor the name of one.
    """
    if not isinstance(accountant, str):
        if isinstance(accountant, type) or not hasattr(accountant, "supports"):
            raise ValueError(
                f"accountant must be an instance or a name, got {described(accountant)}"
            )
        return accountant
    names = {each.name: each for each in known}
    wanted = _plain(accountant)
    exact = [each for name, each in names.items() if _plain(name) == wanted]
    near = [each for name, each in names.items() if _plain(name).startswith(wanted)]
    for found in (exact, near):
        if len(found) == 1:
            return found[0]
    hint = suggestion(accountant, names)
    raise ValueError(f"accountant must be one of {', '.join(names)}, got {accountant!r}{hint}")


def check_supported(
    event: dp.DpEvent, relation: Relation, asked: Sequence[Respondent[object, object]]
) -> tuple[dp.DpEvent, dp.DpEvent]:
    """UnsupportedEventError, which names the part, unless one of those asked knows the event.

    Returns its ``bracket``, which takes a while for a million distinct releases.
    """
    ends = bracket(event)

    def known(part: dp.DpEvent) -> bool:
        return any(each.supports(part, relation) for each in asked)

    if not all(known(each) for each in ends):
        who = f"{asked[0].name} does not support" if len(asked) == 1 else "no accountant supports"
        culprit = first_unsupported(event, known)
        reason = f": {flaw(culprit)}" if flaw(culprit) else ""
        raise UnsupportedEventError(f"{who} {culprit!r} under {relation.value}{reason}")
    return ends


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
