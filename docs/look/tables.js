// On a narrow screen the cells of a row stand below each other (capset.css): each says its column there. A column of two
// kinds, "parameter, → result", marks the cells of the second.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        if (!names[place]) return;
        const [first, second] = names[place].split(", → ");
        cell.dataset.column = second && cell.textContent.trim().startsWith("→") ? second : first;
      });
    }
  }
});
