"""HTML as a tree, which is escaped where it is written."""

from typing import Union
from xml.etree.ElementTree import Element, tostring

Content = Union[str, Element]


def tag(name: str, /, *content: Content, **attributes: object) -> Element:
    """An element. In the names of attributes ``_`` stands for ``-``, and one at the end, as in
    ``class_``, is left out."""
    named = {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()}
    return append(Element(name, named), *content)


def append(element: Element, *content: Content) -> Element:
    """Add text and elements to the end of an element."""
    for item in content:
        if isinstance(item, Element):
            element.append(item)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + item
        else:
            element.text = (element.text or "") + item
    return element


def to_html(page: Element) -> str:
    """A whole document."""
    return "<!DOCTYPE html>\n" + tostring(page, encoding="unicode", method="html") + "\n"
