// The line of filters: completes the word at its end, first the names of filters, then their values.
(() => {
  "use strict";
  const line = document.querySelector("[data-query]");
  const list = document.getElementById("completions");
  if (!line) return;
  const suggested = new Set(line.dataset.suggested.split(" "));
  const names = [...list.options].map((one) => ({ word: one.value, choices: one.dataset.choices }));
  const values = new Map(names.map((one) => [one.word, one.choices ? one.choices.split("|") : null]));

  const valuesOf = async (name) => {  // those of tools, agents and the like are asked for once
    if (values.get(name) === null && suggested.has(name.slice(0, -1))) {
      values.set(name, []);
      const part = await window.spangradeLoad(`${line.dataset.suggestions}/${name.slice(0, -1)}`);
      if (part) values.set(name, [...part.querySelectorAll("option")].map((one) => one.value));
    }
    return values.get(name) ?? [];
  };
  const quoted = (text) => /^[^\s"\\]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;

  const complete = async () => {
    const [, before, word] = /^(.*?)((?:[^\s"]|"[^"]*"?)*)$/s.exec(line.value);
    const name = word.slice(0, word.indexOf(":") + 1);
    const found = values.has(name) ? (await valuesOf(name)).map((one) => name + quoted(one)) : names.map((one) => one.word);
    list.replaceChildren(...found.map((one) => {
      const option = document.createElement("option");
      option.value = before + one;
      option.label = one;
      return option;
    }));
  };
  line.addEventListener("input", complete);
  line.addEventListener("focus", complete);
})();
