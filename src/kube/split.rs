//! Takes a list apart while it arrives: each item as soon as its last byte is there, and what stands around the items at
//! the end. So no page is ever held whole, and the reading is done when the page is.

use memchr::{memchr2, memchr3};

/// A list that is arriving.
#[derive(Debug, Default)]
pub struct Splitter {
    place: Place,
    /// Everything but the items: a list by itself, of none.
    around: Vec<u8>,
    /// The beginning of an item that came in an earlier piece.
    item: Vec<u8>,
}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Around the items, so deep in braces and brackets.
    Around(usize, Text),
    /// Among the items, between two.
    Between,
    /// In an item, so deep in braces. Its brackets need no counting: they can't cross them.
    Item(usize, Text),
}

impl Default for Place {
    fn default() -> Self {
        Self::Around(0, Text::Outside)
    }
}

/// Where it stands as to strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Right after a backslash.
    Escaped,
}

impl Text {
    /// After this byte of a string.
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Inside, b'"') => Self::Outside,
            (Self::Inside, b'\\') => Self::Escaped,
            _ => Self::Inside,
        }
    }
}

impl Splitter {
    /// Takes the next piece, and hands out each item that it completes.
    ///
    /// # Errors
    /// What stands where an item has to.
    pub fn feed(&mut self, piece: &[u8], mut whole: impl FnMut(&[u8])) -> Result<(), String> {
        let mut rest = piece;
        while let Some(&byte) = rest.first() {
            match self.place {
                Place::Around(depth, text) => {
                    self.around(byte, depth, text);
                    rest = &rest[1..];
                }
                Place::Between => match byte {
                    b'{' => self.place = Place::Item(0, Text::Outside),
                    b']' => self.place = Place::Around(2, Text::Outside),
                    b',' | b' ' | b'\n' | b'\r' | b'\t' => rest = &rest[1..],
                    other => return Err(format!("an item of the list begins with {:?}", char::from(other))),
                },
                Place::Item(depth, text) => {
                    let (length, place) = within(rest, depth, text);
                    let (part, after) = rest.split_at(length);
                    rest = after;
                    self.place = place;
                    match place {
                        Place::Between if self.item.is_empty() => whole(part),
                        Place::Between => {
                            self.item.extend_from_slice(part);
                            whole(&self.item);
                            self.item.clear();
                        }
                        _ => self.item.extend_from_slice(part),
                    }
                }
            }
        }
        Ok(())
    }

    /// What stands around the items, once all has come: it is for the caller to read. `None` where it breaks off among the items.
    pub fn end(self) -> Option<Vec<u8>> {
        matches!(self.place, Place::Around(..)).then_some(self.around)
    }

    fn around(&mut self, byte: u8, depth: usize, text: Text) {
        let (depth, text) = match (text, byte) {
            (Text::Outside, b'"') => (depth, Text::Inside),
            (Text::Outside, b'{' | b'[') => (depth + 1, Text::Outside),
            (Text::Outside, b'}' | b']') => (depth.saturating_sub(1), Text::Outside),
            (Text::Outside, _) => (depth, text),
            (text, byte) => (depth, text.after(byte)),
        };
        // `]` comes back here by itself.
        let items = byte == b'[' && text == Text::Outside && depth == 2 && self.is_at_items();
        self.around.push(byte);
        self.place = if items { Place::Between } else { Place::Around(depth, text) };
    }

    /// Whether the value of `items` comes next.
    fn is_at_items(&self) -> bool {
        let before = self.around.trim_ascii_end().strip_suffix(b":");
        let before = before.and_then(|before| before.trim_ascii_end().strip_suffix(b"\"items\""));
        // A name may end like that.
        before.is_some_and(|before| !before.ends_with(b"\\"))
    }
}

/// How far the item goes in this piece, and where that ends.
fn within(piece: &[u8], mut depth: usize, mut text: Text) -> (usize, Place) {
    let mut at = 0;
    while at < piece.len() {
        let found = match text {
            Text::Outside => memchr3(b'"', b'{', b'}', &piece[at..]),
            Text::Inside => memchr2(b'"', b'\\', &piece[at..]),
            Text::Escaped => Some(0),
        };
        let Some(found) = found else { return (piece.len(), Place::Item(depth, text)) };
        at += found + 1;
        match (text, piece[at - 1]) {
            (Text::Outside, b'"') => text = Text::Inside,
            (Text::Outside, b'{') => depth += 1,
            (Text::Outside, _) => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (at, Place::Between);
                }
            }
            (_, byte) => text = text.after(byte),
        }
    }
    (at, Place::Item(depth, text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Takes a text apart, fed in pieces of these lengths in turn.
    fn split(text: &str, lengths: &[usize]) -> Result<(Vec<String>, String), String> {
        let (mut splitter, mut items, mut rest) = (Splitter::default(), Vec::new(), text.as_bytes());
        for length in lengths.iter().cycle() {
            let (piece, after) = rest.split_at((*length).clamp(1, rest.len().max(1)).min(rest.len()));
            splitter.feed(piece, |item| items.push(String::from_utf8(item.to_vec()).unwrap()))?;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        Ok((items, String::from_utf8(splitter.end().unwrap()).unwrap()))
    }

    #[test]
    fn items_come_one_by_one_and_the_rest_is_a_list_of_none() {
        let text = r#"{"kind":"List","metadata":{"items":["a"],"continue":"x"},"items": [{"a":"}\"{"} , {"b":[{},{}]}],"z":"items"}"#;
        let around = r#"{"kind":"List","metadata":{"items":["a"],"continue":"x"},"items": [],"z":"items"}"#;
        let items = vec![r#"{"a":"}\"{"}"#.to_owned(), r#"{"b":[{},{}]}"#.to_owned()];
        for length in 1..=text.len() {
            assert_eq!(split(text, &[length]), Ok((items.clone(), around.to_owned())), "{length}");
        }
    }

    #[test]
    fn no_items_and_none_at_all_are_empty() {
        let others = [r#"{"a":"\"items\":[{}]"}"#, r#"{"a\"items":[{}]}"#, r#"["items",[{}]]"#];
        for text in [r#"{"items":[]}"#, r#"{"items":null}"#, r#"{"metadata":{}}"#].into_iter().chain(others) {
            assert_eq!(split(text, &[3]), Ok((vec![], text.to_owned())));
        }
    }

    #[test]
    fn what_is_no_object_is_no_item() {
        assert_eq!(split(r#"{"items":[7]}"#, &[5]), Err("an item of the list begins with '7'".into()));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), r#"[a-c"\\{}\[\],:é]{0,6}"#.prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let object = prop::collection::btree_map("[a\"\\\\{}]{0,3}|items", inner.clone(), 0..3);
            prop_oneof![prop::collection::vec(inner, 0..3).prop_map(Value::from), object.prop_map(|map| json!(map))]
        })
    }

    proptest! {
        #[test]
        fn any_list_in_any_pieces_is_what_serde_json_reads(
            items in prop::collection::vec(prop::collection::btree_map("[a-z]", any_value(), 0..3), 0..4),
            metadata in any_value(),
            pretty in any::<bool>(),
            lengths in prop::collection::vec(1_usize..40, 1..5),
        ) {
            let list = json!({"apiVersion": "v1", "items": items, "metadata": metadata});
            let text = if pretty { format!("{list:#}") } else { list.to_string() };
            let (found, around) = split(&text, &lengths).unwrap();
            let found: Vec<Value> = found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            prop_assert_eq!(json!(found), json!(items));
            let around: Value = serde_json::from_str(&around).unwrap();
            prop_assert_eq!(around, json!({"apiVersion": "v1", "items": [], "metadata": metadata}));
        }
    }
}
