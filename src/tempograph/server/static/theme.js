// Light, dark or the theme of the system; stored in this browser.

const KEY = "tempograph-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };

export function themeButton(button) {
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    const theme = NEXT[document.documentElement.dataset.theme];
    localStorage.setItem(KEY, theme);
    show(theme);
  });
  const stored = localStorage.getItem(KEY);
  show(stored in NEXT ? stored : "auto");
}
