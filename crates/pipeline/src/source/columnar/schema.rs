//! The fields of a columnar source as Python sees them: names, and the SQL type that holds all of a field's values.

use super::ColumnarFile;
use crate::error::Result;
use crate::plan::{ColumnarFormat, Source};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use serde::Serialize;
use tipple_codec::encode::batch::text_form::unpacked;

/// The key of a field's metadata under which Arrow keeps an extension type.
pub(super) const EXTENSION_NAME: &str = "ARROW:extension:name";
/// Values of any type, in an encoding of their own.
pub(super) const VARIANT: &str = "arrow.parquet.variant";
/// Sixteen bytes that are a UUID.
pub(super) const UUID: &str = "arrow.uuid";
/// Texts that are JSON.
pub(super) const JSON: &str = "arrow.json";
/// Types that Arrow does not know.
const OPAQUE: &str = "arrow.opaque";
/// Months, quarters and other periods as their number since 1970.
const PERIOD: &str = "pandas.period";

/// A field of a columnar source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldDescription {
    /// Its name.
    pub name: String,
    /// Its Arrow type, as Arrow spells it; the extension's name where the values are a code that only its readers know.
    pub arrow_type: String,
    /// The type of a new column for it, as both PostgreSQL and DuckDB spell it; `None` where no type holds it.
    pub sql_type: Option<String>,
    /// Whether it may hold NULL.
    pub nullable: bool,
    /// Whether its values are moments, counted from an instant in UTC.
    pub is_moment: bool,
}

/// The fields of a file.
///
/// # Errors
/// Where it cannot be read, has changed, or is not in this format.
pub fn describe_file(planned: &Source, format: ColumnarFormat) -> Result<Vec<FieldDescription>> {
    Ok(describe(ColumnarFile::open(planned, format)?.schema().as_ref()))
}

/// The fields of a schema.
#[must_use]
pub fn describe(schema: &Schema) -> Vec<FieldDescription> {
    let description = |field: &std::sync::Arc<Field>| {
        let plain = unpacked(field.data_type());
        FieldDescription {
            name: field.name().clone(),
            arrow_type: encoded(field).unwrap_or_else(|| field.data_type().to_string()),
            sql_type: if encoded(field).is_some() { None } else { sql_type(field, &plain) },
            nullable: field.is_nullable(),
            is_moment: matches!(plain, DataType::Timestamp(_, Some(_))),
        }
    };
    schema.fields().iter().map(description).collect()
}

/// The extension that a field, or one in it, is encoded by, where what Arrow sees are no values but their code.
fn encoded(field: &Field) -> Option<String> {
    let metadata = field.metadata();
    let duckdb = || metadata.get("ARROW:extension:metadata").is_some_and(|about| about.contains("\"DuckDB\""));
    match metadata.get(EXTENSION_NAME).map(String::as_str) {
        Some(code @ (VARIANT | PERIOD)) => Some(code.into()),
        // Others keep readable texts by it, too.
        Some(OPAQUE) if duckdb() => Some(OPAQUE.into()),
        _ => match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => encoded(item),
            DataType::Map(entries, _) => encoded(entries),
            DataType::Struct(fields) => fields.iter().find_map(|field| encoded(field)),
            _ => None,
        },
    }
}

/// The smallest SQL type that holds every value of a field; what has no type of its own is text or JSON.
fn sql_type(field: &Field, plain: &DataType) -> Option<String> {
    let extension = field.metadata().get(EXTENSION_NAME).map(String::as_str);
    Some(match plain {
        _ if extension == Some(UUID) => "uuid".into(),
        _ if extension == Some(JSON) => "json".into(),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        DataType::Boolean => "boolean".into(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint".into(),
        DataType::Int32 | DataType::UInt16 => "integer".into(),
        DataType::Int64 | DataType::UInt32 => "bigint".into(),
        DataType::UInt64 => "numeric(20,0)".into(),
        DataType::Float16 | DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let (precision, scale) = (i32::from(*precision), i32::from(*scale));
            // A negative scale counts tens and more: the same number without it has more digits.
            let whole = if scale < 0 { precision - scale } else { precision.max(scale) };
            format!("numeric({whole},{})", scale.max(0))
        }
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Timestamp(_, None) => "timestamp".into(),
        DataType::Timestamp(_, Some(_)) => "timestamptz".into(),
        DataType::Time32(_) | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => "time".into(),
        DataType::Duration(_) | DataType::Interval(_) => "interval".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "bytea".into()
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            // An array of JSON serves nobody; JSON holds arrays itself.
            match sql_type(item, item.data_type())? {
                inner if inner == "json" => inner,
                inner => format!("{inner}[]"),
            }
        }
        DataType::Struct(_) | DataType::Map(..) => "json".into(),
        _ => return None,
    })
}
