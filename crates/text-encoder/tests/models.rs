//! Tests of encoders on small models. The embeddings of BERT models were computed with `BertModel`,
//! `RobertaModel` and `DistilBertModel` of transformers 5.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use testkit::{write_static_encoder, write_tensors, write_word_tokenizer};
use text_encoder::{Encoder, Kind};

const WORDS: [(&str, [f32; 2]); 3] =
    [("[UNK]", [9.0, 9.0]), ("red", [3.0, 0.0]), ("blue", [0.0, 4.0])];

fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found_value, expected_value) in found.iter().zip(expected) {
        assert!((found_value - expected_value).abs() < 1e-5, "{found:?} {expected:?}");
    }
}

#[test]
fn static_embeddings_are_means_of_known_tokens() {
    let folder = tempfile::tempdir().unwrap();
    write_static_encoder(folder.path(), &WORDS);
    let encoder = Encoder::open(folder.path()).unwrap();
    assert_eq!((encoder.kind(), encoder.dimension()), (Kind::Static, 2));
    let embeddings = encoder.encode(&["red blue", "blue green blue", "green", ""]);
    // Of the means (1.5, 2) and (0, 4), scaled to length 1. Unknown words do not count.
    assert_close(&embeddings, &[0.6, 0.8, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);

    // Models store the hash, so it must not change.
    assert_eq!(encoder.hash(), "c6ec5fab2860dc6807893a00");
    let hash = encoder.hash().to_owned();
    fs::write(folder.path().join("config.json"), r#"{"normalize": false}"#).unwrap();
    let plain = Encoder::open(folder.path()).unwrap();
    assert_close(&plain.encode(&["red blue"]), &[1.5, 2.0]);
    assert_ne!(plain.hash(), hash);

    // sentence-transformers also takes the mean of unknown tokens.
    let module = r#"[{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}]"#;
    fs::write(folder.path().join("modules.json"), module).unwrap();
    let values = WORDS.iter().flat_map(|(_, vector)| *vector).collect();
    write_tensors(folder.path(), &[("embedding.weight".to_owned(), vec![3, 2], values)]);
    let static_embedding = Encoder::open(folder.path()).unwrap();
    assert_close(&static_embedding.encode(&["red green"]), &[6.0, 4.5]);
}

/// A kind of BERT: its `model_type`, and its names of the tensors of a layer, with their shapes.
struct Bert {
    model_type: &'static str,
    layers: &'static str,
    parts: [(&'static str, usize, usize); 8],
    types: usize,
    positions: usize,
}

const BERT: Bert = Bert {
    model_type: "bert",
    layers: "encoder.layer",
    parts: [
        ("attention.output.LayerNorm", 4, 0),
        ("attention.output.dense", 4, 4),
        ("attention.self.key", 4, 4),
        ("attention.self.query", 4, 4),
        ("attention.self.value", 4, 4),
        ("intermediate.dense", 8, 4),
        ("output.LayerNorm", 4, 0),
        ("output.dense", 4, 8),
    ],
    types: 2,
    positions: 6,
};

/// The first two positions are not used.
const ROBERTA: Bert = Bert { model_type: "roberta", types: 1, positions: 8, ..BERT };

const DISTILBERT: Bert = Bert {
    model_type: "distilbert",
    layers: "transformer.layer",
    parts: [
        ("sa_layer_norm", 4, 0),
        ("attention.out_lin", 4, 4),
        ("attention.k_lin", 4, 4),
        ("attention.q_lin", 4, 4),
        ("attention.v_lin", 4, 4),
        ("ffn.lin1", 8, 4),
        ("output_layer_norm", 4, 0),
        ("ffn.lin2", 4, 8),
    ],
    types: 0,
    positions: 6,
};

/// Writes a model with two layers, whose weights repeat a series of numbers.
fn write_bert(folder: &Path, kind: &Bert) {
    let embedding = |name: &str, shape: Vec<usize>| (format!("embeddings.{name}"), shape);
    let mut shapes = vec![
        embedding("LayerNorm.bias", vec![4]),
        embedding("LayerNorm.weight", vec![4]),
        embedding("position_embeddings.weight", vec![kind.positions, 4]),
    ];
    if kind.types > 0 {
        shapes.push(embedding("token_type_embeddings.weight", vec![kind.types, 4]));
    }
    shapes.push(embedding("word_embeddings.weight", vec![7, 4]));
    for layer in 0..2 {
        for (part, outputs, inputs) in kind.parts {
            let name = format!("{}.{layer}.{part}", kind.layers);
            shapes.push((format!("{name}.bias"), vec![outputs]));
            let shape = if inputs == 0 { vec![outputs] } else { vec![outputs, inputs] };
            shapes.push((format!("{name}.weight"), shape));
        }
    }
    let tensors: Vec<_> = shapes
        .into_iter()
        .enumerate()
        .map(|(number, (name, shape))| {
            let value = |index: usize| ((number * 1000 + index) * 37 % 101) as f32 / 50.0 - 1.0;
            let values = (0..shape.iter().product()).map(value).collect();
            (name, shape, values)
        })
        .collect();
    write_tensors(folder, &tensors);
    let special = r#"{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}"#;
    write_word_tokenizer(folder, &["[UNK]", "?", "[CLS]", "[SEP]", "a", "b", "c"], special);
    let sizes = if kind.model_type == "distilbert" {
        r#""activation": "gelu", "dim": 4, "hidden_dim": 8, "n_layers": 2, "n_heads": 2"#
    } else {
        r#""hidden_act": "gelu", "hidden_size": 4, "intermediate_size": 8,
        "num_hidden_layers": 2, "num_attention_heads": 2, "layer_norm_eps": 1e-12"#
    };
    let config = format!(
        r#"{{"model_type": "{}", {sizes}, "vocab_size": 7, "max_position_embeddings": {},
        "pad_token_id": 1}}"#,
        kind.model_type, kind.positions
    );
    fs::write(folder.join("config.json"), config).unwrap();
}

#[test]
fn bert_embeddings_equal_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    write_bert(folder.path(), &BERT);
    let encoder = Encoder::open(folder.path()).unwrap();
    assert_eq!((encoder.kind(), encoder.dimension()), (Kind::Bert, 4));
    // The last text is cut after six tokens.
    let texts = ["a b", "c", "a a b c c c"];
    let expected = [
        [-0.922_614_1, -0.778_585_6, 0.437_395_9, -0.648_242],
        [-0.922_710_9, -0.777_784_65, 0.438_254_36, -0.648_329_8],
        [-0.922_097_4, -0.787_967_44, 0.435_226_8, -0.646_598_3],
    ];
    let embeddings = encoder.encode(&texts);
    assert_close(&embeddings, &expected.concat());

    // Texts in other groups have the same embeddings, except for the last bits.
    for (text, embedding) in texts.iter().zip(embeddings.chunks_exact(4)) {
        assert_close(&encoder.encode(&[text]), embedding);
    }
    let many: Vec<&str> = texts.iter().copied().cycle().take(300).collect();
    for repeated in encoder.encode(&many).chunks_exact(12) {
        assert_close(repeated, &embeddings);
    }
}

#[test]
fn embeddings_of_other_kinds_of_bert_equal_those_of_transformers() {
    let of_roberta = [
        [-0.922_666, -0.780_520_74, 0.438_857_97, -0.647_763_13],
        [-0.922_721_56, -0.779_945_85, 0.439_310_64, -0.647_837_8],
        [-0.922_382_36, -0.789_545_06, 0.439_500_3, -0.645_969_1],
    ];
    let of_distilbert = [
        [-0.427_212_98, -0.735_178_3, -1.025_387_2, 0.847_987_9],
        [-0.417_986_24, -0.735_693_7, -1.030_489_8, 0.844_372_2],
        [-0.425_456_32, -0.735_212, -1.026_800_6, 0.846_000_2],
    ];
    for (kind, expected) in [(ROBERTA, of_roberta), (DISTILBERT, of_distilbert)] {
        let folder = tempfile::tempdir().unwrap();
        write_bert(folder.path(), &kind);
        let encoder = Encoder::open(folder.path()).unwrap();
        assert_close(&encoder.encode(&["a b", "c", "a a b c c c"]), &expected.concat());
    }

    // All positions are before the first one.
    let folder = tempfile::tempdir().unwrap();
    write_bert(folder.path(), &Bert { positions: 2, ..ROBERTA });
    let message = Encoder::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("a size of the model is 0"), "{message}");
}

#[test]
fn modules_choose_pooling_and_normalization() {
    let folder = tempfile::tempdir().unwrap();
    write_bert(folder.path(), &BERT);
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true}"#);
    let modules = |last: &str| {
        let module = |path: &str, kind: &str| {
            format!(r#"{{"path": "{path}", "type": "sentence_transformers.models.{kind}"}}"#)
        };
        let modules =
            [module("", "Transformer"), module("1_Pooling", "Pooling"), module("2", last)];
        format!("[{}]", modules.join(","))
    };
    write("modules.json", &modules("Normalize"));
    let encoder = Encoder::open(folder.path()).unwrap();
    let first = [-0.922_749_34, -0.772_424_6, 0.436_406_76, -0.649_494_4f32];
    let norm = first.iter().map(|value| value * value).sum::<f32>().sqrt();
    assert_close(&encoder.encode(&["a b"]), &first.map(|value| value / norm));

    // As sentence-transformers 6 writes it.
    write("1_Pooling/config.json", r#"{"pooling_mode": "mean", "embedding_dimension": 4}"#);
    let mean = [-0.922_614_1, -0.778_585_6, 0.437_395_9, -0.648_242f32];
    let norm = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
    let encoder = Encoder::open(folder.path()).unwrap();
    assert_close(&encoder.encode(&["a b"]), &mean.map(|value| value / norm));
    write("tokenizer_config.json", r#"{"model_max_length": 4}"#);
    let cut = Encoder::open(folder.path()).unwrap();
    assert_eq!(cut.encode(&["a b c"]), cut.encode(&["a b"]));
    write("tokenizer_config.json", r#"{"model_max_length": 1000000000000000019884624838656}"#);
    let whole = Encoder::open(folder.path()).unwrap();
    assert_ne!(whole.encode(&["a b c"]), cut.encode(&["a b c"]));

    let error = |name: &str, text: &str| {
        write(name, text);
        Encoder::open(folder.path()).unwrap_err().to_string()
    };
    let message = error("modules.json", &modules("Dense"));
    assert!(message.contains("the module `sentence_transformers.models.Dense`"), "{message}");
    write("modules.json", &modules("Normalize"));
    let message = error("1_Pooling/config.json", r#"{"pooling_mode_max_tokens": true}"#);
    assert!(message.contains("only mean pooling"), "{message}");
    write("1_Pooling/config.json", r#"{"pooling_mode_mean_tokens": true}"#);
    write("sentence_bert_config.json", r#"{"max_seq_length": 3}"#);
    let cut = Encoder::open(folder.path()).unwrap();
    assert_eq!(cut.encode(&["c a b c"]), cut.encode(&["c"]));
    let message = error("sentence_bert_config.json", r#"{"max_seq_length": 2}"#);
    assert!(message.contains("2 special tokens leave no room for text in 2 tokens"), "{message}");
    let message = error(
        "config.json",
        r#"{"model_type": "mpnet", "hidden_size": 4,
        "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "vocab_size": 7, "max_position_embeddings": 6}"#,
    );
    assert!(message.contains("the model type `mpnet` is not supported"), "{message}");
}

#[test]
fn damaged_folders_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let error = || Encoder::open(folder.path()).unwrap_err().to_string();
    let missing = folder.path().join("missing");
    assert!(Encoder::open(&missing).unwrap_err().to_string().contains("missing"));
    assert!(error().contains("not a model: expected the file config.json"), "{}", error());
    write_static_encoder(folder.path(), &WORDS);
    let weights = folder.path().join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    for length in [0, 7, 8, 20, bytes.len() - 1] {
        fs::write(&weights, &bytes[..length]).unwrap();
        assert!(error().contains("model.safetensors"), "{}", error());
    }
    write_tensors(folder.path(), &[("embeddings".to_owned(), vec![2, 2], vec![0.0; 4])]);
    let expected = "the tensor embeddings has 2 rows, but the tokenizer has 3 tokens";
    assert!(error().contains(expected), "{}", error());
    write_tensors(folder.path(), &[("other".to_owned(), vec![3, 2], vec![0.0; 6])]);
    assert!(error().contains("there is no tensor embeddings"), "{}", error());
    fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    assert!(error().contains("not a tokenizer"), "{}", error());
}
