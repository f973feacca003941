// One agent in JavaScript: `node team_agents.js URL KEY FIRST SPANS COUNT`. Sends sessions of 8 spans with OpenTelemetry's
// exporter, each request until it is acknowledged, and prints how many spans were after each. $NODE_PATH has the packages,
// $NODE_EXTRA_CA_CERTS the server's certificate.
"use strict";
const { trace, ROOT_CONTEXT } = require("@opentelemetry/api");
const { BasicTracerProvider } = require("@opentelemetry/sdk-trace-base");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-proto");
const { resourceFromAttributes } = require("@opentelemetry/resources");

const [url, key, ...numbers] = process.argv.slice(2);
const [first, spans, count] = numbers.map(Number);
let number = first;
const hex = (value, width) => value.toString(16).padStart(width, "0");
let batch = [];
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  idGenerator: {
    generateTraceId: () => hex(Math.floor(number / 8) + 1, 32),
    generateSpanId: () => hex(++number, 16),
  },
  spanProcessors: [
    { onStart() {}, onEnd: (span) => batch.push(span), forceFlush: async () => {}, shutdown: async () => {} },
  ],
});
const tracer = provider.getTracer("shop");
const exporter = new OTLPTraceExporter({ url, headers: { Authorization: `Bearer ${key}` } });

function session() {
  const startTime = Date.now() - 1000;
  const attributes = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "javascript" };
  const root = tracer.startSpan("invoke_agent javascript", { startTime, attributes }, ROOT_CONTEXT);
  const context = trace.setSpan(ROOT_CONTEXT, root);
  for (let call = 0; call < 7; call++) {
    const attributes = { "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1" };
    tracer.startSpan("chat gpt-4.1", { startTime, attributes }, context).end(startTime + 100);
  }
  root.end(startTime + 900);
}

(async () => {
  let acknowledged = 0;
  while (acknowledged < spans) {
    batch = [];
    while (batch.length < Math.min(count, spans - acknowledged)) session();
    while ((await new Promise((done) => exporter.export(batch, done))).code !== 0)
      await new Promise((done) => setTimeout(done, 100));
    acknowledged += batch.length;
    console.log(acknowledged);
  }
})();
