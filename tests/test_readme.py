"""The README's example runs as printed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_example_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)  # the reader's own copy and paste
    spent = names["plan"].guarantee.epsilon(1e-6)
    assert 0.999 < spent.lower <= spent.upper <= 1.0
    assert names["many"].released.shape == (3, 100, 20)


def test_every_link_leads_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 5
    assert [link for link in links if not (ROOT / link).exists()] == []
