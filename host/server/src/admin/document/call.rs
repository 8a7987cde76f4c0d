//! Description of a call. A builder adds the parts that all calls have in common.

use std::collections::BTreeMap;

use kassette_domain::operator::Role;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::{ArrayBuilder, Object, Schema};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    ContentBuilder, HttpMethod, OpenApi, Ref, RefOr, Required, ResponseBuilder, Responses,
};
use utoipa::{PartialSchema, ToSchema};

use super::formats::{self, AuditText};
use crate::web::document::{refusals, refused};

/// Name of the operators' token in the document.
pub(super) const TOKEN: &str = "operator_token";

/// Errors of every call.
const EVERYWHERE: [(&str, &str); 6] = [
    (
        "400",
        "Invalid JSON, a wrong Content-Type, or a request that did not arrive whole.",
    ),
    (
        "401",
        "The token is missing, unknown or expired, or its operator was removed.",
    ),
    (
        "421",
        "The listener does not answer under the `Host` that the request names.",
    ),
    (
        "422",
        "A field, query parameter or header is missing, unknown, repeated, of a wrong form, or not acceptable now.",
    ),
    (
        "500",
        "An unexpected error; it does not prove that nothing happened.",
    ),
    (
        "503",
        "More than can be carried, or a disk that is full or fails.",
    ),
];

/// A call.
pub(super) struct Call {
    method: HttpMethod,
    path: &'static str,
    operation: OperationBuilder,
    /// Details that the summary does not contain.
    about: String,
    role: Role,
    attribution: Attribution,
    body: Option<Body>,
    responses: BTreeMap<String, RefOr<Response>>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

/// The request's body.
enum Body {
    /// The schema's name, its fields, and the schemas that it refers to.
    Json(String, Box<Object>, Vec<(String, RefOr<Schema>)>),
    /// Description of the file.
    File(String),
    /// A file or JSON.
    FileOrJson(String, Box<Body>),
}

/// Attribution in the audit log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribution {
    /// None: the call changes nothing that is audited.
    None,
    /// Actor and reason are recorded if given.
    Recorded,
    /// Actor and reason are required.
    Required,
}

/// A body that contains only actor and reason.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Attributed {
    /// The person behind the operator's token; the operator's name if absent.
    actor: Option<AuditText>,
    /// The reason.
    reason: Option<AuditText>,
}

impl Call {
    /// A call that reads.
    pub(super) fn get(path: &'static str, id: &str, summary: &str) -> Self {
        Self::new(HttpMethod::Get, path, id, summary)
    }

    /// A call with an effect: requires the role operator, is audited, and has a body for actor and reason.
    pub(super) fn post(path: &'static str, id: &str, summary: &str) -> Self {
        Self::new(HttpMethod::Post, path, id, summary).changing()
    }

    /// A call that sets a value.
    pub(super) fn put(path: &'static str, id: &str, summary: &str) -> Self {
        Self::new(HttpMethod::Put, path, id, summary).changing()
    }

    /// A call that applies a merge patch.
    pub(super) fn patch(path: &'static str, id: &str, summary: &str) -> Self {
        Self::new(HttpMethod::Patch, path, id, summary).changing()
    }

    /// A call that removes an object.
    pub(super) fn delete(path: &'static str, id: &str, summary: &str) -> Self {
        let call = Self::new(HttpMethod::Delete, path, id, summary).changing();
        let gone = ResponseBuilder::new().description("It is gone.").build();
        call.answer("204", gone)
    }

    fn new(method: HttpMethod, path: &'static str, id: &str, summary: &str) -> Self {
        let mut operation = OperationBuilder::new()
            .operation_id(Some(id))
            .summary(Some(summary));
        let mut responses = refusals(EVERYWHERE);
        let mut before = "";
        for segment in path.split('/') {
            if let Some(name) = segment
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'))
            {
                operation = operation.parameter(
                    ParameterBuilder::new()
                        .name(name)
                        .parameter_in(ParameterIn::Path)
                        .required(Required::True)
                        .schema(Some(formats::of_path(before, name))),
                );
                responses.insert("404".into(), refused("There is no such thing."));
            }
            before = segment;
        }
        Self {
            method,
            path,
            operation,
            about: String::new(),
            role: Role::Viewer,
            attribution: Attribution::None,
            body: None,
            responses,
            schemas: Vec::new(),
        }
    }

    fn changing(mut self) -> Self {
        self.role = Role::Operator;
        self.attribution = Attribution::Recorded;
        self.body::<Attributed>()
    }

    /// Adds details to the summary.
    pub(super) fn about(mut self, about: &str) -> Self {
        self.about = about.to_owned();
        self
    }

    /// Sets the least role for the call.
    pub(super) const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Requires actor and reason.
    pub(super) const fn attributed(mut self) -> Self {
        self.attribution = Attribution::Required;
        self
    }

    /// The call is not audited, and its body has no attribution.
    pub(super) fn unaudited<T: ToSchema>(mut self) -> Self {
        self.attribution = Attribution::None;
        self.body::<T>()
    }

    /// Adds a query parameter.
    pub(super) fn query<T: PartialSchema>(self, name: &str, description: &str) -> Self {
        self.parameter::<T>(name, Required::False, description)
    }

    /// Adds a required query parameter.
    pub(super) fn required_query<T: PartialSchema>(self, name: &str, description: &str) -> Self {
        self.parameter::<T>(name, Required::True, description)
    }

    fn parameter<T: PartialSchema>(
        mut self,
        name: &str,
        required: Required,
        description: &str,
    ) -> Self {
        self.operation = self.operation.parameter(
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .required(required)
                .description(Some(description))
                .schema(Some(T::schema())),
        );
        self
    }

    /// Adds a JSON body with these fields, in addition to actor and reason.
    pub(super) fn body<T: ToSchema>(mut self) -> Self {
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        self.body = Some(Body::Json(
            T::name().into_owned(),
            Box::new(fields::<T>()),
            schemas,
        ));
        self
    }

    /// Adds a body that is a file.
    pub(super) fn file_body(mut self, description: &str) -> Self {
        self.body = Some(Body::File(description.to_owned()));
        self
    }

    /// Adds a body that is a file or the JSON body that was specified before.
    pub(super) fn or_file_body(mut self, description: &str) -> Self {
        let json = self.body.take().map(Box::new);
        self.body = json.map(|json| Body::FileOrJson(description.to_owned(), json));
        self
    }

    /// 200 with an object.
    pub(super) fn ok<T: ToSchema>(self, description: &str) -> Self {
        self.object::<T>("200", description)
    }

    /// 201 with an object.
    pub(super) fn created<T: ToSchema>(self, description: &str) -> Self {
        self.object::<T>("201", description)
    }

    /// 202 with an object.
    pub(super) fn accepted<T: ToSchema>(self, description: &str) -> Self {
        self.object::<T>("202", description)
    }

    /// 200 with a page of a list, and paging parameters.
    pub(super) fn list<T: ToSchema>(self, plural: &str) -> Self {
        self.page::<T>(plural, Object::new())
    }

    /// The same, with the fields of another type next to the list.
    pub(super) fn list_beside<T: ToSchema, B: ToSchema>(mut self, plural: &str) -> Self {
        B::schemas(&mut self.schemas);
        self.page::<T>(plural, fields::<B>())
    }

    fn page<T: ToSchema>(self, plural: &str, mut page: Object) -> Self {
        let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let cursor = formats::or_null(formats::Cursor::schema());
        page.properties
            .insert(plural.to_owned(), items.build().into());
        page.properties.insert("next_cursor".to_owned(), cursor);
        page.required
            .extend([plural.to_owned(), "next_cursor".to_owned()]);
        let call = self
            .query::<formats::Limit>("limit", "Most items of a page; 50 where it is absent.")
            .query::<formats::Cursor>("cursor", "`next_cursor` of the page before.");
        let content = ContentBuilder::new().schema(Some(page)).build();
        let page = ResponseBuilder::new()
            .description("A page; `next_cursor` is null on the last.")
            .content("application/json", content);
        call.knows::<T>().answer("200", page.build())
    }

    /// 200 with a file.
    pub(super) fn file(self, media_type: &str, description: &str) -> Self {
        let file = ResponseBuilder::new()
            .description(description)
            .content(media_type, ContentBuilder::new().build());
        self.answer("200", file.build())
    }

    /// 200 with all items as CSV or JSON lines.
    pub(super) fn export(self) -> Self {
        let file = ResponseBuilder::new()
            .description("The lines. A body that breaks off is not whole.")
            .content(
                "text/csv; charset=utf-8; header=present",
                ContentBuilder::new().build(),
            )
            .content("application/jsonl", ContentBuilder::new().build());
        self.query::<formats::ExportFormat>("format", "`csv` where it is absent.")
            .answer("200", file.build())
    }

    /// 404 that the path itself does not imply.
    pub(super) fn missing(mut self, description: &str) -> Self {
        self.responses.insert("404".into(), refused(description));
        self
    }

    /// 409.
    pub(super) fn conflict(mut self, description: &str) -> Self {
        self.responses.insert("409".into(), refused(description));
        self
    }

    /// 200 with an object or, if `Accept` requests lines, with lines that end with it.
    pub(super) fn ok_or_lines<T: ToSchema>(mut self, description: &str, lines: &str) -> Self {
        self = self.ok::<T>(description);
        if let Some(RefOr::T(answer)) = self.responses.get_mut("200") {
            let content = ContentBuilder::new().build();
            answer.content.insert(lines.to_owned(), RefOr::T(content));
        }
        self
    }

    fn object<T: ToSchema>(self, status: &str, description: &str) -> Self {
        let schema = Ref::from_schema_name(T::name());
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let answer = ResponseBuilder::new()
            .description(description)
            .content("application/json", content);
        self.knows::<T>().answer(status, answer.build())
    }

    fn answer(mut self, status: &str, response: Response) -> Self {
        self.responses.insert(status.into(), RefOr::T(response));
        self
    }

    fn knows<T: ToSchema>(mut self) -> Self {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        self
    }

    /// Adds the call to a document.
    pub(super) fn add_to(mut self, api: &mut OpenApi, tag: &str) {
        let role = match self.role {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        };
        let attribution = match self.attribution {
            Attribution::None => "",
            Attribution::Recorded => {
                " The audit log keeps `actor` and `reason` where they are said."
            }
            Attribution::Required => {
                " `actor` and `reason` are required, in the body or as headers."
            }
        };
        let about = format!("{} Needs the role `{role}`.{attribution}", self.about);
        if self.role > Role::Viewer {
            let low = format!("The operator's role is less than `{role}`.");
            self.responses.insert("403".into(), refused(&low));
        }
        if self.body.is_some() {
            self.responses.extend(refusals([
                ("408", "The body did not arrive in time."),
                ("413", "The body is too large."),
            ]));
        }
        let mut operation = self
            .operation
            .tag(tag)
            .description(Some(about.trim()))
            .security(SecurityRequirement::new(TOKEN, [role]))
            .responses(self.responses.into_iter().collect::<Responses>());
        if self.attribution != Attribution::None {
            for name in ["X-Audit-Actor", "X-Audit-Reason"] {
                operation = operation.parameter(
                    ParameterBuilder::new()
                        .name(name)
                        .parameter_in(ParameterIn::Header)
                        .required(Required::False)
                        .description(Some("Counts where the body does not say it. UTF-8."))
                        .schema(Some(AuditText::schema())),
                );
            }
        }
        let (file, json) = match self.body {
            None => (None, None),
            Some(Body::File(about)) => (Some(about), None),
            Some(Body::FileOrJson(about, json)) => (Some(about), Some(*json)),
            Some(json) => (None, Some(json)),
        };
        let json = match json {
            Some(Body::Json(name, mut object, schemas)) => {
                self.schemas.extend(schemas);
                if self.attribution != Attribution::None {
                    object.properties.extend(fields::<Attributed>().properties);
                    Attributed::schemas(&mut self.schemas);
                }
                let body = json_body(&self.method, &name, &object);
                self.schemas.push((name, RefOr::T(Schema::Object(*object))));
                Some(body)
            }
            _ => None,
        };
        let body = match file {
            None => json,
            Some(about) => {
                let mut body = RequestBodyBuilder::new()
                    .description(Some(about))
                    .required(Some(Required::True))
                    .content("application/wasm", ContentBuilder::new().build())
                    .build();
                let json = json.into_iter().flat_map(|json| json.content);
                body.content.extend(json);
                Some(body)
            }
        };
        let operation = operation.request_body(body);
        api.paths
            .add_path_operation(self.path, vec![self.method], operation);
        let components = api.components.get_or_insert_default();
        components.schemas.extend(self.schemas);
    }
}

/// A JSON body; optional if no field is required.
fn json_body(method: &HttpMethod, name: &str, object: &Object) -> RequestBody {
    let content = || {
        ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(name)))
            .build()
    };
    let required = match object.required.is_empty() {
        true => Required::False,
        false => Required::True,
    };
    let body = RequestBodyBuilder::new()
        .required(Some(required))
        .content("application/json", content());
    match method {
        HttpMethod::Patch => body.content("application/merge-patch+json", content()),
        _ => body,
    }
    .build()
}

/// The fields of a type.
fn fields<T: PartialSchema>() -> Object {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::new(),
    }
}

/// The fields of two types; those of the second take precedence.
pub(super) fn joined<A: PartialSchema, B: PartialSchema>() -> RefOr<Schema> {
    let (mut object, more) = (fields::<A>(), fields::<B>());
    object.properties.extend(more.properties);
    object.required.extend(more.required);
    object.required.sort();
    object.required.dedup();
    // The first type's example lacks fields.
    object.example = None;
    object.examples.clear();
    RefOr::T(Schema::Object(object))
}
