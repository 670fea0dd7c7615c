//! As much of JSON Schema as the description uses, stricter in one way: a field that is not described does not fit.

use std::collections::BTreeSet;

use serde_json::Value;

/// Where and how a message does not fit a schema of the document.
pub(crate) fn misfit(document: &Value, schema: &str, message: &Value) -> Option<String> {
    let schema = &document["components"]["schemas"][schema];
    assert!(schema.is_object(), "no such schema");
    check(document, schema, message, "$").err()
}

/// Every `$ref` of a document.
pub(crate) fn references(value: &Value) -> BTreeSet<String> {
    let own = value.get("$ref").and_then(Value::as_str).map(str::to_owned);
    let inner: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    own.into_iter().chain(inner.into_iter().flat_map(references)).collect()
}

type Checked = Result<(), String>;

fn check(document: &Value, schema: &Value, value: &Value, at: &str) -> Checked {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).ok_or_else(|| format!("no {reference}"))?;
        return check(document, target, value, at);
    }
    for alternatives in [&schema["oneOf"], &schema["anyOf"]] {
        if let Some(alternatives) = alternatives.as_array() {
            let fits = alternatives.iter().any(|schema| check(document, schema, value, at).is_ok());
            return if fits { Ok(()) } else { Err(format!("{at}: fits none of the alternatives: {value}")) };
        }
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return Err(format!("{at}: {value} is not in the list"));
    }
    if schema.get("const").is_some_and(|known| known != value) {
        return Err(format!("{at}: {value} is another constant"));
    }
    match schema["type"].as_str() {
        Some("object") => check_object(document, schema, value, at),
        Some("array") => {
            let items = value.as_array().ok_or_else(|| format!("{at}: not a list"))?;
            items.iter().try_for_each(|item| check(document, &schema["items"], item, &format!("{at}[]")))
        }
        Some("string") if !value.is_string() => Err(format!("{at}: not a text")),
        Some("integer") if !value.is_i64() && !value.is_u64() => Err(format!("{at}: not an integer")),
        Some("number") if !value.is_number() => Err(format!("{at}: not a number")),
        Some("boolean") if !value.is_boolean() => Err(format!("{at}: not a boolean")),
        Some("null") if !value.is_null() => Err(format!("{at}: not null")),
        _ => Ok(()),
    }
}

fn check_object(document: &Value, schema: &Value, value: &Value, at: &str) -> Checked {
    let fields = value.as_object().ok_or_else(|| format!("{at}: not an object"))?;
    for required in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(required.as_str().unwrap_or_default()) {
            return Err(format!("{at}: {required} is missing"));
        }
    }
    for (name, field) in fields {
        let described = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match described {
            Some(described) if described.is_object() => check(document, described, field, &format!("{at}.{name}"))?,
            Some(_) | None => return Err(format!("{at}: {name} is not described")),
        }
    }
    Ok(())
}
