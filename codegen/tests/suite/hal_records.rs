//! The generated records of calls: the exact text for a mini-spec.

use crate::hal::generated;
use crate::hal_observe::MINI;

#[test]
fn calls_are_kept_with_all_they_have() {
    let text = generated(MINI, "hal/records.rs");
    for part in [
        // Values that calls do not have are marked.
        "\
        failure: Status,
    },
",
        "\
        /// The argument `done`.
        done: Unseen,
",
        "\
            Call::DeviceLight { points, spare, bulb, failure } => {
                RecordedCall::DeviceLight {
                    points: points.keep(keeper),
                    spare: spare.keep(keeper),
                    bulb: bulb.keep(keeper),
                    done: Unseen::Callback,
                    failure: failure.keep(keeper),
                }
            }
",
        "\
                visitor.field(\"done\");
                done.visit(visitor);
",
        "Reply::DeviceLight(value) => RecordedReply::DeviceLight(value.keep(keeper)),",
        // A struct with objects has their numbers.
        "\
/// A [`Point`] that is kept.
#[derive(Clone, Debug)]
pub struct RecordedPoint {
    /// The lamp.
    pub lamp: ObjectId,
    /// The place.
    pub place: u32,
}
impl Keep for Point {
    type Kept = RecordedPoint;
    fn keep(&self, keeper: &mut Keeper<'_>) -> RecordedPoint {
        RecordedPoint {
            lamp: self.lamp.keep(keeper),
            place: self.place.keep(keeper),
        }
    }
}
impl Visit for RecordedPoint {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.begin_fields();
        visitor.field(\"lamp\");
        self.lamp.visit(visitor);
        visitor.field(\"place\");
        self.place.visit(visitor);
        visitor.end_fields();
    }
}
",
        "\
impl Keep for Arc<dyn Bulb> {
    type Kept = ObjectId;
    fn keep(&self, keeper: &mut Keeper<'_>) -> ObjectId {
        keeper.object(self)
    }
}
",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}
