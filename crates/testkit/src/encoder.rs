//! Small pretrained models, written as their real counterparts are stored.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Writes a static encoder: a vector of two values for each word, with word 0 for unknown words.
pub fn write_static_encoder(folder: &Path, words: &[(&str, [f32; 2])]) {
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    write_word_tokenizer(folder, &names, "null");
    fs::write(folder.join("config.json"), r#"{"model_type": "model2vec", "normalize": true}"#)
        .unwrap();
    let values: Vec<f32> = words.iter().flat_map(|(_, vector)| *vector).collect();
    write_tensors(folder, &[("embeddings".to_owned(), vec![words.len(), 2], values)]);
}

/// Writes a `tokenizer.json` whose tokens are words between white space. Word 0 stands for unknown
/// words. `processor` adds special tokens; `null` adds none.
pub fn write_word_tokenizer(folder: &Path, words: &[&str], processor: &str) {
    let entry = |(number, word): (usize, &&str)| format!("\"{word}\":{number}");
    let vocabulary: Vec<String> = words.iter().enumerate().map(entry).collect();
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
        "normalizer":null,"pre_tokenizer":{{"type":"WhitespaceSplit"}},
        "post_processor":{processor},"decoder":null,
        "model":{{"type":"WordLevel","vocab":{{{}}},"unk_token":"{}"}}}}"#,
        vocabulary.join(","),
        words[0]
    );
    fs::write(folder.join("tokenizer.json"), json).unwrap();
}

/// Writes `model.safetensors`: tensors of 32-bit floats, each with its name and shape.
pub fn write_tensors(folder: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) {
    let mut header = String::from("{");
    let mut data: Vec<u8> = Vec::new();
    for (number, (name, shape, values)) in tensors.iter().enumerate() {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let comma = if number == 0 { "" } else { "," };
        let end = data.len();
        write!(
            header,
            r#"{comma}"{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        )
        .unwrap();
    }
    header.push('}');
    let length = u64::try_from(header.len()).unwrap().to_le_bytes();
    fs::write(folder.join("model.safetensors"), [&length, header.as_bytes(), &data].concat())
        .unwrap();
}
