use serde_json::json;

use super::*;

fn at(line: usize, column: usize) -> Place {
    Place { line, column }
}

#[test]
fn every_value_knows_its_place_and_a_missing_one_its_parents() {
    let text = "kind: X\nspec:\n  windows:\n    - start: 2\n      days: [Mon,\n        Tue]\n  labels:\n    example.com/team: a\n";
    let (documents, fault) = documents(text);
    assert_eq!((documents.len(), fault), (1, None));
    let node = &documents[0];
    let expected = json!({"kind": "X", "spec": {"windows": [{"start": 2, "days": ["Mon", "Tue"]}], "labels": {"example.com/team": "a"}}});
    assert_eq!(node.json(), expected);
    for (path, line, column) in [
        ("spec", 2, 1),
        ("spec.windows", 3, 3),
        ("spec.windows[0].start", 4, 14),
        ("spec.windows[0].days[1]", 6, 9),
        ("spec.windows[0].end", 4, 7),
        ("spec.windows[7].end", 3, 3),
        ("spec.labels.example.com/team", 8, 23),
        ("spec.surge.readyTimeout", 2, 1),
        ("metadata.name", 1, 1),
    ] {
        assert_eq!(node.locate(path), at(line, column), "{path}");
    }
}

#[test]
fn documents_before_a_fault_count_and_the_fault_has_a_place() {
    let (documents, fault) = documents("a: 1\n---\n---\nb: [1\n");
    assert_eq!(documents.len(), 1);
    assert!(fault.is_some_and(|fault| fault.at.line >= 4));
    let twice = super::documents("a: 1\nb: 2\na: 3\n").1;
    assert_eq!(twice, Some(Fault { at: at(3, 1), why: "the key \"a\" is there already: give it once".into() }));
}

#[test]
fn aliases_and_merges_are_written_out_and_bombs_are_refused() {
    let (read, fault) = documents("base: &b {a: 1, b: 2}\nuse: {<<: *b, b: 3}\nlist: [*b]\n");
    assert_eq!(fault, None);
    assert_eq!(read[0].json(), json!({"base": {"a": 1, "b": 2}, "use": {"b": 3, "a": 1}, "list": [{"a": 1, "b": 2}]}));
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
    }
    assert_eq!(documents(&bomb).1.unwrap().why, "too many values");
    let deep = "[".repeat(100_000);
    assert!(documents(&deep).1.is_some());
    let nested = format!("{}x", "- ".repeat(70));
    assert_eq!(documents(&nested).1.unwrap().why, "nested more than 64 deep");
}
