"""Speed, measured: `explorer bench SUITE` runs `main` of the module of that name; what suites share lies in folders."""
