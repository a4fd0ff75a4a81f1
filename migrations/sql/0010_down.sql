DROP TABLE reflections;
