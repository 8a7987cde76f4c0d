//! Common parts of the documents of both APIs: license, error responses, and headers of all responses.

use std::collections::BTreeMap;

use utoipa::ToSchema as _;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{
    ContentBuilder, License, LicenseBuilder, Paths, Ref, RefOr, ResponseBuilder,
};

use super::error::ErrorBody;

/// The project's license.
pub(crate) fn licence() -> License {
    LicenseBuilder::new()
        .name("Apache License 2.0")
        .identifier(Some("Apache-2.0"))
        .build()
}

/// Groups of operations, each with a description.
pub(crate) fn tags<const N: usize>(list: [(&str, &str); N]) -> Vec<Tag> {
    let tag = |(name, about)| {
        TagBuilder::new()
            .name(name)
            .description(Some(about))
            .build()
    };
    list.map(tag).into()
}

/// A response in the common format of errors.
pub(crate) fn refused(description: &str) -> RefOr<Response> {
    let error = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(ErrorBody::name())))
        .build();
    RefOr::T(
        ResponseBuilder::new()
            .description(description)
            .content("application/json", error)
            .build(),
    )
}

/// Error responses for several statuses.
pub(crate) fn refusals<const N: usize>(
    list: [(&str, &str); N],
) -> BTreeMap<String, RefOr<Response>> {
    list.into_iter()
        .map(|(status, description)| (status.to_owned(), refused(description)))
        .collect()
}

/// All operations of some paths.
pub(crate) fn operations(paths: &mut Paths) -> impl Iterator<Item = &mut Operation> {
    paths.paths.values_mut().flat_map(|item| {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        operations.into_iter().flatten()
    })
}

/// Adds the headers that each response of an operation has because of its status.
pub(crate) fn name_headers(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            add_headers(status, response);
        }
    }
}

fn add_headers(status: &str, response: &mut Response) {
    let mut add = |name: &str, kind: Type, description: &str| {
        let header = HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(kind)))
            .description(Some(description))
            .build();
        response.headers.insert(name.to_owned(), header.into());
    };
    add(
        "X-Request-Id",
        Type::String,
        "The request's id, 1-128 visible ASCII characters.",
    );
    match status {
        "401" => add("WWW-Authenticate", Type::String, "`Bearer`"),
        "429" => {
            add("Retry-After", Type::Integer, "Seconds.");
            add(
                "RateLimit",
                Type::String,
                "What remains of the quota, and for how long.",
            );
            add(
                "RateLimit-Policy",
                Type::String,
                "The quota: requests (`q`) in a window of seconds (`w`).",
            );
        }
        "503" => add("Retry-After", Type::Integer, "Seconds."),
        _ => {}
    }
}
