// On a narrow screen the cells of a row stand below each other (capset.css): each says its column there.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        if (names[place]) cell.dataset.column = names[place];
      });
    }
  }
});
