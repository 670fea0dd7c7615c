//! `kill -9` at random moments under load. The seed is printed; the moments it gives are the same in every run.
