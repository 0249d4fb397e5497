"""The rows of `explorer bench gpu`: inputs, peers, the libraries beside them, and how a row is measured."""
