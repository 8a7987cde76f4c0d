//! The document describes every call of the router and its requirements. All tests compare requests and
//! responses with it.

use std::collections::BTreeSet;

use super::*;
use crate::admin::document::openapi;

const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

fn document() -> Value {
    serde_json::to_value(openapi(true)).unwrap()
}

/// Every operation: its method in capitals, and its path.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(|method| (method.to_uppercase(), path.clone()))
    });
    operations.collect()
}

/// A path with values for its variables.
fn filled(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|segment| match segment.starts_with('{') {
            true => "1",
            false => segment,
        });
    segments.collect::<Vec<_>>().join("/")
}

/// Paths of a router under `/admin/v1`, from its debug output.
fn paths(router: &Router) -> BTreeSet<String> {
    let listed = format!("{router:?}");
    let paths = listed.split('"').filter_map(|text| {
        let path = text.strip_prefix("/admin/v1")?;
        (path.starts_with('/') && !path.contains("{*")).then(|| path.to_owned())
    });
    paths.collect()
}

#[tokio::test]
async fn every_route_has_an_operation_and_every_operation_a_route() {
    let world = World::new().await;
    let operations: BTreeSet<_> = operations(&document()).into_iter().collect();
    let routes = paths(&world.router());
    assert!(routes.len() > 40, "the router lists its paths: {routes:?}");
    let mut paths = routes;
    paths.extend(operations.iter().map(|(_, path)| path.clone()));
    for path in paths {
        for method in METHODS {
            // Without a token, every route of the API returns 401.
            let answer = world.send(request(None, method.clone(), &filled(&path), None));
            let is_route = match answer.await.status() {
                StatusCode::UNAUTHORIZED => true,
                StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => false,
                other => panic!("{method} {path}: {other}"),
            };
            let is_told = operations.contains(&(method.to_string(), path.clone()));
            assert_eq!(is_route, is_told, "{method} {path}: router, document");
        }
    }
}

#[tokio::test]
async fn an_operation_tells_the_role_that_its_route_needs() {
    let world = World::new().await;
    let document = document();
    for (method, path) in operations(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        let said = operation["security"][0]["operator_token"][0]
            .as_str()
            .unwrap();
        let described = operation["description"].as_str().unwrap();
        assert!(described.contains(&format!("the role `{said}`.")), "{path}");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        for (role, token) in [("viewer", &world.viewer), ("operator", &world.operator)] {
            let sent = request(Some(token), method.clone(), &filled(&path), None);
            let refused = world.send(sent).await.status() == StatusCode::FORBIDDEN;
            let least = ["viewer", "operator", "admin"].map(|known| known == said);
            let needed = match role {
                "viewer" => !least[0],
                _ => least[2],
            };
            assert_eq!(refused, needed, "{role} {method} {path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_answer_has_its_headers() {
    let document = document();
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1);
    for reference in references {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    for (method, path) in operations(&document) {
        let responses = &document["paths"][&path][method.to_lowercase()]["responses"];
        for (status, response) in responses.as_object().unwrap() {
            let headers = &response["headers"];
            assert!(headers["X-Request-Id"].is_object(), "{path} {status}");
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            let is_error = schema == "#/components/schemas/Error";
            assert_eq!(is_error, !status.starts_with('2'), "{path} {status}");
        }
    }
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    assert_eq!(document["servers"][0]["url"], "/admin/v1");
}

#[test]
fn bodies_are_closed() {
    let document = document();
    for (method, path) in operations(&document) {
        let body = &document["paths"][&path][method.to_lowercase()]["requestBody"];
        let schema = &body["content"]["application/json"]["schema"]["$ref"];
        if let Some(reference) = schema.as_str() {
            let schema = document.pointer(&reference[1..]).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{method} {path}");
        }
    }
}

/// The policy parser and the document have the same fields: an additional field would be refused, and a missing
/// one would be absent in responses, which all tests compare with the document.
#[tokio::test]
async fn every_field_of_a_policy_that_the_document_names_is_taken() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let whole = json!({
        "methods": { "ideal": {
            "enabled": false, "providers": ["first-test"], "min": "1.00", "max": "2.00",
        } },
        "provider_choice": true, "max_usd": "100.00", "review_over_usd": "50.00",
        "fx_max_age_seconds": 60, "fx_margin": "0.015", "platform_fee_refundable": true,
        "rate_limit": { "per_second": 7, "burst": 9 },
    });
    let path = format!("/merchants/{merchant}");
    let changed = world.patch(&path, json!({ "policy": whole })).await;
    assert_eq!(changed.is(200)["policy"], whole);
    let schemas = &document()["components"]["schemas"];
    for (value, schema) in [
        (&whole, "PolicyPatch"),
        (&whole["methods"]["ideal"], "MethodPolicyPatch"),
        (&whole["rate_limit"], "RateLimitPatch"),
    ] {
        let said: Vec<_> = value.as_object().unwrap().keys().collect();
        let named: Vec<_> = schemas[schema]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(said, named, "{schema}");
    }
}

#[tokio::test]
async fn the_document_is_served_to_all_that_know_our_name() {
    let world = World::new().await;
    let ask = |method: Method, host: &str| {
        let request = Request::builder().method(method).uri("/openapi.json");
        world.send(request.header(HOST, host).body(Body::empty()).unwrap())
    };
    let answer = ask(Method::GET, NAME).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20)
        .await
        .unwrap();
    let served: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(served, serde_json::to_value(openapi(false)).unwrap());
    let elsewhere = ask(Method::GET, "evil.example").await.status();
    assert_eq!(elsewhere, StatusCode::MISDIRECTED_REQUEST);
    let changed = ask(Method::DELETE, NAME).await.status();
    assert_eq!(changed, StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn what_dev_alone_has_is_told_by_dev_alone() {
    let paths = |dev: bool| {
        let document = serde_json::to_value(openapi(dev)).unwrap();
        let paths = document["paths"].as_object().unwrap();
        paths
            .keys()
            .filter(|path| path.starts_with("/dev/"))
            .count()
    };
    assert_eq!((paths(false), paths(true)), (0, 5));
}
