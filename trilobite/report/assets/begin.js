start(readData(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "{}"), /** @type {HTMLElement} */ (document.getElementById("page")));
