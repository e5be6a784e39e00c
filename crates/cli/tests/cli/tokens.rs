//! `classify tokens`.

use crate::{GOLDEN, run_with};

#[test]
fn tokens() {
    let see = |extra: &[&str], text: &str| {
        let run = run_with(&[&["tokens"], extra].concat(), text.as_bytes());
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    assert_eq!(see(&[], "Don't stop: 東京都\n"), "don't\tstop\t東京\t京都\n");
    assert_eq!(see(&["--stem", "en", "--stop-words", "en"], "the runners\n"), "runner\n");
    assert_eq!(see(&["--word-ngrams", "1-2"], "a b\n"), "a\ta b\tb\n");
    assert_eq!(see(&["--char-ngrams", "3"], "abc\n"), "~ ab\t~abc\t~bc \n");
    assert_eq!(see(&["--char-ngrams", "2", "--char-scope", "text"], "a b\n"), "~a \t~ b\n");
    assert_eq!(see(&["--fold-accents", "--min-length", "3"], "été à là\n"), "ete\n");
    assert_eq!(see(&["--model", GOLDEN], "Baking trains\n"), "bake\t?bake train\t?train\n");
}
