// Makes three changes of a user's memories, and prints them as they come.
import { Mnema } from "mnema-client";

const memory = new Mnema();
const texts = ["Noor books the venue.", "Noor orders eighty chairs.", "Noor invites the neighbours."];
const [user_id, category] = ["noor", "tasks"];
const writing = (async () => {
  for (const text of texts) await memory.remember(text, { user_id, category, type: "episodic" });
})();
let told = 0;
for await (const change of memory.changes({ user_id, after: "start", memory: true })) {
  console.log(change.event, change.memory?.text);
  told += 1;
  if (told === texts.length) break;
}
await writing;
