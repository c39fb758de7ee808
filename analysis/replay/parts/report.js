// The page of a report: nothing but the choice of light or dark colours.

window.theme = new Theme(document.getElementById("theme"));
onThemeKey(() => window.theme.toggle());
