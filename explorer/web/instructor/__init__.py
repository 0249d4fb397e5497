"""A class and who leads it: students by a code, the instructor's pages by a token, what is sent and handed in."""
