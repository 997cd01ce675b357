// Options, dates and ids are not broken at their hyphens: "--allow-host" would go on in the next line as "-host".
document$.subscribe(() => {
  const names = /((?<![\w-])--?[A-Za-z][\w-]*|\d{4}-\d\d-\d\d|\b[A-Z]{2}-\d{3})/;
  for (const article of document.querySelectorAll("article.md-typeset")) {
    const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (names.test(node.data) && !node.parentElement.closest("pre, .whole")) found.push(node);
    }
    for (const node of found) {
      const parts = node.data.split(names).map((part, place) => {
        if (place % 2 === 0) return part;
        const whole = document.createElement("span");
        whole.className = "whole";
        whole.textContent = part;
        return whole;
      });
      node.replaceWith(...parts);
    }
  }
});
