//! A call of the admin API.

use http::Method;
use serde_json::Value;

/// The request, and how its response is shown.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Call {
    /// GET, POST, PATCH, DELETE.
    pub(super) method: Method,
    /// Path segments below the base URL, not yet percent-encoded.
    pub(super) path: Vec<String>,
    /// Query parameters.
    pub(super) query: Vec<(&'static str, String)>,
    /// JSON body, if the call has one.
    pub(super) body: Option<Value>,
    /// The slot whose candidate's digest is queried first and added to the body.
    pub(super) candidate_of: Option<String>,
    /// A component as the body.
    pub(super) module: Option<Vec<u8>>,
    /// How the response is shown.
    pub(super) shape: Shape,
    /// Question before the call. `None` if the call needs no confirmation, or if `--yes` was given.
    pub(super) confirm: Option<String>,
    /// A read-only call whose response is printed before the question.
    pub(super) preview: Option<Box<Call>>,
    /// Option and value with which the command can be repeated if there was no response.
    pub(super) again: Option<(&'static str, String)>,
}

/// Titles and JSON pointers into an item, most important first: the last columns are omitted if the terminal is
/// too narrow.
pub(super) type Columns = &'static [(&'static str, &'static str)];

/// A second list in a response: `items` with their total `count`, of which the response may contain only some.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Beside {
    /// Field with both; null while unknown.
    pub(super) field: &'static str,
    /// Name of its list.
    pub(super) items: &'static str,
    /// Description of the items.
    pub(super) what: &'static str,
    pub(super) columns: Columns,
    /// The command that shows all of them.
    pub(super) all: &'static str,
}

/// How a response is shown to people.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum Shape {
    /// A list under a name: one column per JSON pointer into an item.
    List(&'static str, Columns),
    /// The same, with a list inside each item as rows below it.
    ListOfLists(&'static str, &'static str, Columns),
    /// A list with a second one.
    ListBeside(&'static str, Columns, Beside),
    /// An object.
    Object,
    /// An object with a secret that is shown only once.
    Once,
    /// No content: prints this sentence.
    Nothing(String),
    /// An object of numbers. The call is repeated with the `cursor` of the previous response, and the numbers
    /// are summed. The text describes the operation.
    Sums(&'static str),
    /// Lines with progress, and an object at the end.
    Diff,
    /// Text that is written as it arrives: CSV or JSON lines.
    Text,
}

impl Call {
    /// A call without query and body that returns an object.
    pub(super) fn new<S: ToString>(method: Method, path: impl IntoIterator<Item = S>) -> Self {
        Self {
            method,
            path: path
                .into_iter()
                .map(|segment| segment.to_string())
                .collect(),
            query: Vec::new(),
            body: None,
            candidate_of: None,
            module: None,
            shape: Shape::Object,
            confirm: None,
            preview: None,
            again: None,
        }
    }

    /// Adds a query parameter if there is a value.
    pub(super) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query
            .extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Adds the digest of a slot's candidate to the body.
    pub(super) fn of_candidate(mut self, slot: String) -> Self {
        self.candidate_of = Some(slot);
        self
    }

    /// Sets a component as the body.
    pub(super) fn module(mut self, module: Vec<u8>) -> Self {
        self.module = Some(module);
        self
    }

    /// Sets the option that makes the command repeatable.
    pub(super) fn repeatable(mut self, option: &'static str, value: String) -> Self {
        self.again = Some((option, value));
        self
    }

    /// Adds a question that a person must confirm, unless `yes`.
    pub(super) fn confirmed(mut self, question: impl Into<String>, yes: bool) -> Self {
        self.confirm = (!yes).then(|| question.into());
        self
    }

    /// Adds a call whose response is printed first.
    pub(super) fn previewed(mut self, preview: Self) -> Self {
        self.preview = Some(Box::new(preview));
        self
    }

    /// Sets how the response is shown.
    pub(super) fn shown(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}
