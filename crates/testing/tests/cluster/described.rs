//! `/testing/v1/openapi.json` is accurate: the listed operations are served, others are not, and bodies match the
//! schemas.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::Status;
use watchkeeper_server::{Action, Cut, Flow, RequestMatch, Rule, Stale, Verb};

use crate::over_http::{ask, create, get, post, started};

/// The document, to check answers against.
struct Document(Value);

/// The error of a value, if there is one.
type Checked = Result<(), String>;

impl Document {
    async fn read(client: &Client) -> Self {
        Self(get(client, "openapi.json").await)
    }

    /// Every operation: method, path below `/testing/v1/`, and its description.
    fn operations(&self) -> Vec<(Method, String, &Value)> {
        let mut operations = Vec::new();
        for (path, methods) in self.0["paths"].as_object().unwrap() {
            let path = path.strip_prefix("/testing/v1/").unwrap();
            for (method, operation) in methods.as_object().unwrap() {
                let method = method.to_ascii_uppercase().parse().unwrap();
                operations.push((method, path.to_owned(), operation));
            }
        }
        operations
    }

    fn schema(&self, reference: &str) -> &Value {
        let path = reference.strip_prefix('#').unwrap();
        let found = self.0.pointer(path);
        found.unwrap_or_else(|| panic!("{reference} does not exist"))
    }

    /// Checks a value against a schema, as far as these schemas go.
    fn check(&self, schema: &Value, value: &Value) -> Checked {
        if let Some(reference) = schema["$ref"].as_str() {
            self.check(self.schema(reference), value)?;
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let fitting = choices.iter().filter(|choice| self.check(choice, value).is_ok());
            if fitting.count() != 1 {
                return Err(format!("{value} is not one of {}", schema["oneOf"]));
            }
        }
        check_type(&schema["type"], value)?;
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            return Err(format!("{value} is not in {words:?}"));
        }
        if let Some(least) = schema["minimum"].as_f64()
            && value.as_f64().is_some_and(|number| number < least)
        {
            return Err(format!("{value} is less than {least}"));
        }
        if let Some(items) = value.as_array() {
            items
                .iter()
                .try_for_each(|item| self.check(&schema["items"], item))?;
        }
        self.check_fields(schema, value)
    }

    fn check_fields(&self, schema: &Value, value: &Value) -> Checked {
        let Some(fields) = value.as_object() else {
            return Ok(());
        };
        for required in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                return Err(format!("{value} lacks {required}"));
            }
        }
        for (name, value) in fields {
            match schema["properties"].get(name) {
                Some(schema) => self
                    .check(schema, value)
                    .map_err(|why| format!("{name}: {why}"))?,
                None if schema["additionalProperties"] == false => {
                    return Err(format!("unknown field {name}"));
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn check_type(types: &Value, value: &Value) -> Checked {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let fits = match types {
        Value::Null => true,
        Value::String(name) => is(name),
        types => types
            .as_array()
            .unwrap()
            .iter()
            .any(|name| is(name.as_str().unwrap())),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("{value} is not of type {types}"))
    }
}

/// Sends the example of the document, and checks the answer against its schema.
async fn try_out(
    client: &Client,
    document: &Document,
    method: Method,
    path: &str,
    operation: &Value,
) -> Result<Value, Error> {
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        document.check(&body["schema"], &body["example"]).unwrap();
    }
    let answer = ask(client, method, path, body["example"].clone()).await?;
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(!schema.is_null(), "{path} has no answer");
    document
        .check(schema, &answer)
        .unwrap_or_else(|why| panic!("{path}: {why}"));
    Ok(answer)
}

#[tokio::test]
async fn exactly_the_described_operations_are_served() {
    let (server, client) = started().await;
    let document = Document::read(&client).await;
    // Content for the answers: an object, a fault that fires, and one that is pending.
    create(&client, "a").await.unwrap();
    post(&client, "faults", json!({"times": 1, "action": "forbid"})).await;
    assert!(create(&client, "b").await.unwrap_err().is_forbidden());
    post(
        &client,
        "faults",
        json!({"request": {"user": "bob"}, "action": "forbid"}),
    )
    .await;

    let operations = document.operations();
    // Reads first, because the others remove the content.
    for wanted in [Method::GET, Method::POST, Method::DELETE] {
        for (method, path, operation) in &operations {
            if *method != wanted {
                continue;
            }
            let path = path.replace("{id}", "1");
            // The list of faults is cleared before a single fault is removed.
            let put_back = path.starts_with("faults/");
            if put_back {
                post(&client, "reset", Value::Null).await;
            }
            let path = match put_back {
                true => format!(
                    "faults/{}",
                    post(&client, "faults", json!({"action": "forbid"})).await["id"]
                ),
                false => path,
            };
            let answer = try_out(&client, &document, method.clone(), &path, operation).await;
            answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        }
    }
    for (_, path, _) in &operations {
        for method in [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ] {
            if operations
                .iter()
                .any(|(known, at, _)| *known == method && at == path)
            {
                continue;
            }
            let refused = ask(&client, method.clone(), &path.replace("{id}", "1"), Value::Null).await;
            let refused = refused.expect_err("it is not described");
            assert!(refused.is_not_found(), "{method} {path}: {refused}");
        }
    }
    server.shutdown().await;
}

#[tokio::test]
async fn every_fault_matches_its_schema() {
    let (server, client) = started().await;
    let document = Document::read(&client).await;
    let second = Duration::from_secs(1);
    let cuts = [
        Cut::BeforeHandling,
        Cut::BeforeAnswer,
        Cut::WithinAnswer,
        Cut::AfterAnswer,
    ];
    let flows = [
        Flow::Running,
        Flow::Slow(second),
        Flow::Stalled,
        Flow::Ended,
        Flow::Cut,
    ];
    let mut actions = vec![
        Action::fail(Status::internal_error("on purpose")),
        Action::Forbid,
        Action::Delay(second),
        Action::Stale(Stale::At(1)),
        Action::Stale(Stale::Behind(1)),
        Action::Compact,
        Action::WebhooksDown,
        Action::ReadOnly,
        Action::DelayEvent(second),
        Action::WithholdBookmark,
    ];
    actions.extend(cuts.map(Action::Cut));
    actions.extend(flows.map(Action::Flow));
    let request = RequestMatch {
        user: Some("bob".to_owned()),
        user_agent: Some("kubectl/".to_owned()),
        group: Some(String::new()),
        subresource: Some("status".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("a".to_owned()),
        ..RequestMatch::new(Verb::DeleteCollection, "pods")
    };
    for action in actions {
        let rule = json!(Rule::new(request.clone(), action));
        let schema = document.schema("#/components/schemas/Fault");
        document
            .check(schema, &rule)
            .unwrap_or_else(|why| panic!("{rule}: {why}"));
        post(&client, "faults", rule).await;
    }
    let unknown = json!({"action": "explode"});
    assert!(
        document
            .check(document.schema("#/components/schemas/Fault"), &unknown)
            .is_err()
    );
    server.shutdown().await;
}
