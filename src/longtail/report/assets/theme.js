"use strict";
// Runs before anything is drawn, so that a dark page never flashes white.
const dark = matchMedia("(prefers-color-scheme: dark)");
function chosenTheme() {
  try { return localStorage.getItem("longtail-theme"); } catch { return null; }
}
function showTheme() {
  document.documentElement.dataset.theme = chosenTheme() ?? (dark.matches ? "dark" : "light");
}
showTheme();
