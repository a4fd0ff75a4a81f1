// A LangGraph graph whose notes are in Mnema, found by meaning.
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { MnemaStore } from "mnema-client/langgraph";

const State = Annotation.Root({ asked: Annotation<string>, found: Annotation<string> });
const store = new MnemaStore({ index: { fields: ["text"] }, userOf: (namespace) => namespace[1] });
const graph = new StateGraph(State)
  .addNode("search", async ({ asked }, config: LangGraphRunnableConfig) => {
    const [first] = (await config.store?.search(["notes", "maya"], { query: asked })) ?? [];
    return { found: String(first?.value.text) };
  })
  .addEdge(START, "search")
  .addEdge("search", END)
  .compile({ store });

await store.put(["notes", "maya"], "venue", { text: "The venue has room for eighty." });
await store.put(["notes", "maya"], "bread", { text: "Jonas bakes rye bread." });
const { found } = await graph.invoke({ asked: "How many people fit in?" });
console.log(found);
