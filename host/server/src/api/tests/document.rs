//! The OpenAPI document is complete and matches the served API.

use std::collections::BTreeSet;

use axum::body::Body;
use kassette_domain::event::EventType;
use kassette_domain::method::MethodId;
use serde_json::Value;

use super::world::World;
use crate::api::openapi;

fn document() -> Value {
    serde_json::to_value(openapi()).unwrap()
}

/// All values of a key, at any depth.
fn all<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(name));
            object.values().for_each(|inner| all(inner, name, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| all(inner, name, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.as_str().unwrap().trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn every_endpoint_tells_its_statuses_in_the_error_shape() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["info"]["version"], "1.0");
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    for (method, path, statuses) in [
        (
            "post",
            "/api/v1/payments",
            "200 201 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/payments",
            "200 400 401 403 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/payments/start",
            "200 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/payments/{payment_id}",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/payments/{payment_id}/details",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/events",
            "200 400 401 403 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/payments/{payment_id}/details",
            "200 400 401 403 404 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/payments/{payment_id}/refunds",
            "200 201 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/payments/{payment_id}/refunds",
            "200 400 401 403 404 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/payments/{payment_id}/refunds",
            "200 201 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/payments/{payment_id}/refunds",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/movements",
            "200 400 401 403 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/refunds/{refund_id}",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/account/webhook-endpoints",
            "200 400 401 403 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/account/webhook-endpoints",
            "201 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/account/webhook-endpoints/{id}",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "patch",
            "/api/v1/account/webhook-endpoints/{id}",
            "200 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/account/webhook-endpoints/{id}/test",
            "201 400 401 403 404 408 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/account/webhook-endpoints/{id}/rotate",
            "200 400 401 403 404 408 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/account/webhook-endpoints/{id}/recover",
            "200 400 401 403 404 408 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/account/deliveries",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/account/deliveries/{id}",
            "200 400 401 403 404 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/account/deliveries/{id}/redeliver",
            "201 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/webhook-endpoints",
            "200 400 401 403 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/webhook-endpoints",
            "201 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "patch",
            "/api/v1/reseller/webhook-endpoints/{id}",
            "200 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/webhook-endpoints/{id}/rotate",
            "200 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/deliveries/{id}",
            "200 400 401 403 404 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/deliveries/{id}/redeliver",
            "201 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/methods",
            "200 400 401 403 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/invitations",
            "200 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/merchants",
            "200 400 401 403 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/payments",
            "200 400 401 403 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/payments",
            "200 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "post",
            "/api/v1/reseller/payments/start",
            "200 400 401 403 404 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/reseller/payments/{payment_id}",
            "200 400 401 403 404 409 413 422 429 500 503",
        ),
    ] {
        let operation = &document["paths"][path][method];
        let responses = operation["responses"].as_object().unwrap();
        let said: BTreeSet<_> = responses.keys().map(String::as_str).collect();
        assert_eq!(said, statuses.split(' ').collect(), "{method} {path}");
        for (status, response) in responses {
            assert!(
                response["headers"]["X-Request-Id"].is_object(),
                "{path} {status}"
            );
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            let is_error = schema == "#/components/schemas/Error";
            assert_eq!(
                is_error,
                !status.starts_with('2'),
                "{path} {status} {schema}"
            );
        }
        let key = if path.starts_with("/api/v1/reseller/") {
            "reseller_key"
        } else {
            "merchant_key"
        };
        assert!(operation["security"][0][key].is_array(), "{path}");
    }
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let document = document();
    let mut ids = Vec::new();
    all(&document["paths"], "operationId", &mut ids);
    let apart: BTreeSet<_> = ids.iter().filter_map(|id| id.as_str()).collect();
    assert_eq!(apart.len(), ids.len());
    let own = &document["paths"]["/api/v1/reseller/webhook-endpoints"]["get"];
    assert_eq!(own["operationId"], "listResellerOwnEndpoints");
    assert_eq!(own["tags"], serde_json::json!(["Resellers"]));
}

#[test]
fn endpoints_without_a_key_tell_their_statuses_in_the_error_shape() {
    let document = document();
    for (method, path, statuses) in [
        (
            "post",
            "/api/v1/connect/exchange",
            "200 400 401 403 408 409 413 422 429 500 503",
        ),
        (
            "get",
            "/api/v1/woocommerce/releases/latest",
            "200 304 400 404 413 422 429 500 503",
        ),
    ] {
        let operation = &document["paths"][path][method];
        let responses = operation["responses"].as_object().unwrap();
        let said: BTreeSet<_> = responses.keys().map(String::as_str).collect();
        assert_eq!(said, statuses.split(' ').collect(), "{method} {path}");
        for (status, response) in responses {
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            let is_error = schema == "#/components/schemas/Error";
            assert_eq!(is_error, status.starts_with(['4', '5']), "{path} {status}");
        }
        assert_eq!(operation["security"], serde_json::json!([]), "{path}");
    }
}

#[test]
fn bodies_are_closed_and_their_rules_are_told() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for name in [
        "PaymentCreateRequest",
        "StartRequest",
        "ResellerPaymentCreateRequest",
        "InvitationRequest",
        "ConnectExchangeRequest",
        "OwnEndpoint",
        "EndpointPatch",
        "EndpointRotation",
        "Recovery",
    ] {
        assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
    }
    let required = |name: &str| -> BTreeSet<String> {
        let list = schemas[name]["required"].as_array().unwrap();
        list.iter()
            .map(|field| field.as_str().unwrap().to_owned())
            .collect()
    };
    let fields = |text: &str| text.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        required("PaymentCreateRequest"),
        fields("order_id idempotency_key amount")
    );
    assert_eq!(
        required("StartRequest"),
        fields("payment_id payment_method")
    );
    assert_eq!(
        required("ResellerPaymentCreateRequest"),
        fields("merchant_id client_ref order_id amount currency")
    );
    assert_eq!(
        required("InvitationRequest"),
        fields("email business_name client_ref")
    );
    assert_eq!(
        required("DelegatedMerchant"),
        fields("merchant_id business_name status authorized_at client_ref")
    );
    let payment = "payment_id order_id status settlement_status amount currency usd_amount payment_method test_mode checkout_url";
    assert_eq!(required("Payment"), fields(payment));
    assert_eq!(
        required("Provider"),
        fields("id name verification_note verification_url")
    );
    assert_eq!(required("Error"), fields("error code"));
    assert_eq!(schemas["Currency"]["enum"].as_array().unwrap().len(), 21);
    let methods = schemas["PaymentMethod"]["description"].as_str().unwrap();
    for method in MethodId::SPECIFIED {
        assert!(methods.contains(&format!("`{method}`")), "{methods}");
    }
    assert_eq!(
        schemas["PaymentMethod"]["pattern"],
        "^[a-z][a-z0-9_]{1,31}$"
    );
    assert_eq!(schemas["IdempotencyKey"]["maxLength"], 190);
    assert_eq!(schemas["ClientRef"]["maxLength"], 190);
    assert_eq!(schemas["PaymentId"]["pattern"], "^[0-9a-f]{32}$");
}

#[test]
fn words_that_may_grow_are_plain_strings_beside_which_those_of_now_stand() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let with = |keyword: &str| -> Vec<&str> {
        let having = schemas
            .iter()
            .filter(|(_, schema)| schema.get(keyword).is_some());
        having.map(|(name, _)| name.as_str()).collect()
    };
    // Requests are checked against a list. Environments, states of deliveries and circuits, and effects of
    // movements are fixed lists.
    assert_eq!(
        with("enum"),
        [
            "CheckoutMode",
            "Circuit",
            "Currency",
            "DeliveryStatus",
            "Environment",
            "MovementEffect",
        ]
    );
    for name in [
        "AttemptState",
        "DeclineCode",
        "DelegationStatus",
        "DisputeState",
        "EventType",
        "MerchantScope",
        "PaymentCurrency",
        "PaymentStatus",
        "RefundOrigin",
        "RefundStatus",
        "SettlementStatus",
    ] {
        let schema = &schemas[name];
        assert_eq!(schema["type"], "string", "{name}");
        let about = schema["description"].as_str().unwrap();
        for word in schema["x-extensible-enum"].as_array().unwrap() {
            assert!(about.contains(word.as_str().unwrap()), "{name}: {word}");
        }
    }
}

#[test]
fn defaults_are_told() {
    let schemas = &document()["components"]["schemas"];
    for (of, field, default) in [
        ("PaymentCreateRequest", "currency", "USD"),
        ("PaymentCreateRequest", "checkout_mode", "hosted"),
        ("ResellerPaymentCreateRequest", "checkout_mode", "hosted"),
    ] {
        assert_eq!(
            schemas[of]["properties"][field]["default"], default,
            "{of}.{field}"
        );
    }
}

#[test]
fn the_event_is_told_with_its_headers_and_its_types() {
    let document = document();
    let event = &document["webhooks"]["payment-event"]["post"];
    let headers = event["parameters"].as_array().unwrap().iter();
    let names: Vec<_> = headers
        .map(|header| (header["name"].as_str().unwrap(), &header["required"]))
        .collect();
    assert_eq!(
        names,
        [
            ("X-Service-Event-ID", &Value::Bool(true)),
            ("X-Service-Timestamp", &Value::Bool(true)),
            ("X-Service-Signature", &Value::Bool(true)),
            ("webhook-id", &Value::Bool(true)),
            ("webhook-timestamp", &Value::Bool(true)),
            ("webhook-signature", &Value::Bool(true)),
        ]
    );
    let body = &event["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(body, "#/components/schemas/Event");
    let schemas = &document["components"]["schemas"];
    let types = &schemas["EventType"]["x-extensible-enum"];
    assert_eq!(types.as_array().unwrap().len(), EventType::ALL.len());
    assert_eq!(
        schemas["EventData"]["required"].as_array().unwrap().len(),
        8
    );
}

#[tokio::test]
async fn the_document_is_served_for_our_own_origin_and_may_be_cached() {
    let world = World::new().await;
    let answer = world
        .ask("GET", "/openapi.json", &[], Body::empty())
        .await
        .expect(200);
    assert_eq!(answer.json()["servers"][0]["url"], "https://pay.example");
    assert_eq!(answer.header("cache-control"), "public, max-age=300");
    let tag = answer.header("etag");
    let headers = [("if-none-match", tag)];
    let again = world.ask("GET", "/openapi.json", &headers, Body::empty());
    let again = again.await.expect(304);
    assert_eq!((again.text.as_str(), again.header("etag")), ("", tag));
}

#[tokio::test]
async fn the_document_can_be_had_without_webhooks_for_generators_that_cannot_read_them() {
    let world = World::new().await;
    let ask = async |target: &str| world.ask("GET", target, &[], Body::empty()).await;
    let whole = ask("/openapi.json").await.expect(200);
    let without = ask("/openapi.json?webhooks=none").await.expect(200);
    assert_ne!(whole.header("etag"), without.header("etag"));
    let (mut whole, without) = (whole.json(), without.json());
    assert!(whole.as_object_mut().unwrap().remove("webhooks").is_some());
    assert_eq!(whole, without);
    for target in [
        "/openapi.json?webhooks=all",
        "/openapi.json?webhooks=none&webhooks=none",
        "/openapi.json?format=yaml",
    ] {
        ask(target).await.expect(422);
    }
}
