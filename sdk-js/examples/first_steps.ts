// Remembers a sentence and recalls it. Set MNEMA_URL and MNEMA_API_KEY: with `make run`, `. .mnema/demo.env` sets both.
import { Mnema } from "mnema-client";

const memory = new Mnema();
await memory.remember("Maya deploys to staging every Thursday.", { user_id: "maya", category: "tasks" });
console.log(await memory.recall("When do we deploy?", { user_id: "maya", agent: "planner" }));
