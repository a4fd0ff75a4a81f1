DROP TABLE llm_budget, llm_calls;
