//! Defects that a launch can have: an instruction that is missing, or that has another operand.

use std::fmt;
use std::panic::Location;

use super::Thread;
use super::observe::Instruction;
use super::tensor_map::{Matrices, Swizzle, TensorMap};
use crate::arch::sm90::tensor::Coords;

/// An instruction that is not as its kernel has it, whoever executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The instruction.
    pub instruction: Instruction,
    /// What is wrong with it.
    pub change: Change,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nobody executes it.
    Missing,
    /// An operand, by its number, has this added.
    Added(usize, i64),
    /// An operand has these bits flipped.
    Flipped(usize, u64),
}

use Change::{Added, Flipped, Missing};

/// Operands of an instruction by name, each with what is planted in it.
type Operands = &'static [(&'static str, &'static [Change])];

const BARRIER: &[Change] = &[Added(0, 8), Added(0, -8)];
/// Halves of the fields of a descriptor, in bits: start, leading, stride, swizzle.
const DESCRIPTOR: [u64; 4] = [1 << 1, 1 << 16, 1 << 34, 3 << 62];

/// What an instruction is called, and its operands; those of a tensor map come behind the instruction's own.
const INSTRUCTIONS: &[(&str, Operands)] = &[
    ("barrier.sync", &[]),
    ("mbarrier.init", &[("barrier", BARRIER), ("count", &[Added(1, 1), Added(1, -1)])]),
    ("fence.mbarrier_init", &[]),
    ("mbarrier.arrive", &[("barrier", BARRIER), ("bytes", &[Added(1, 128), Added(1, -128)])]),
    ("mbarrier.try_wait", &[("barrier", BARRIER), ("parity", &[Flipped(1, 1)])]),
    ("mbarrier.arrive.shared::cluster", &[("barrier", BARRIER)]),
    ("barrier.cluster", &[("release", &[Flipped(0, 1)])]),
    ("mapa.shared::cluster", &[("address", BARRIER), ("rank", &[Flipped(1, 1)])]),
    ("ld.shared::cluster", &[("address", &[Added(0, 16), Added(0, 8)])]),
    (
        "cp.async.bulk",
        &[
            ("destination", &[Added(0, 512), Added(0, 8)]),
            ("source", &[Added(1, 1024), Added(1, 8)]),
            ("bytes", &[Added(2, 16), Added(2, -16)]),
            ("barrier", &[Added(3, 8), Added(3, -8)]),
        ],
    ),
    (
        "cp.async.bulk.tensor",
        &[
            ("destination", &[Added(0, 512), Added(0, 1024)]),
            ("map", &[Flipped(1, 1)]),
            ("x", &[Added(2, 8)]),
            ("y", &[Added(3, 1)]),
            ("barrier", &[Added(4, 8), Added(4, -8)]),
            ("blocks", &[Flipped(5, 1), Flipped(5, 2)]),
            ("width of the map", &[Added(6, 8)]),
            ("lines of the map", &[Added(7, 1)]),
            ("pitch of the map", &[Added(8, 16)]),
            ("width of the box", &[Added(9, -8)]),
            ("lines of the box", &[Added(10, -8), Added(10, 8)]),
            ("swizzle", &[Flipped(11, 1)]),
        ],
    ),
    (
        "cp.async.bulk.tensor.global",
        &[
            ("source", &[Added(0, 1024)]),
            ("map", &[Flipped(1, 2)]),
            ("x", &[Added(2, 8)]),
            ("y", &[Added(3, 1)]),
            ("width of the map", &[Added(4, 8)]),
            ("lines of the map", &[Added(5, 1)]),
            ("pitch of the map", &[Added(6, 16)]),
            ("width of the box", &[Added(7, -8)]),
            ("lines of the box", &[Added(8, -8), Added(8, 8)]),
            ("swizzle", &[Flipped(9, 1)]),
        ],
    ),
    ("prefetch.tensormap", &[("map", &[Flipped(0, 1)])]),
    ("fence.proxy.async", &[]),
    ("cp.async.bulk.commit_group", &[]),
    ("cp.async.bulk.wait_group.read", &[("pending", &[Added(0, 1)])]),
    ("bar.sync", &[("id", &[Flipped(0, 1)]), ("threads", &[Added(1, 128), Added(1, -64)])]),
    ("stmatrix", &[("row", &[Added(0, 8), Added(0, 16)])]),
    ("setmaxnreg", &[("registers", &[Added(0, 8), Added(0, -8)])]),
    (
        "wgmma.mma_async",
        &[
            (
                "descriptor of A",
                &[
                    Added(0, 2),
                    Flipped(0, DESCRIPTOR[1]),
                    Flipped(0, DESCRIPTOR[2]),
                    Flipped(0, DESCRIPTOR[3]),
                ],
            ),
            (
                "descriptor of B",
                &[
                    Added(1, 2),
                    Flipped(1, DESCRIPTOR[1]),
                    Flipped(1, DESCRIPTOR[2]),
                    Flipped(1, DESCRIPTOR[3]),
                ],
            ),
            ("scale of D", &[Flipped(2, 1)]),
            ("fence", &[Flipped(3, 1)]),
        ],
    ),
    ("wgmma.commit_group", &[]),
    ("wgmma.wait_group", &[("pending", &[Added(0, 1)])]),
];

/// Those that order nothing, which are not left out: what lacks an address or a number does not compile.
const GIVE_VALUES: [&str; 2] = ["mapa.shared::cluster", "ld.shared::cluster"];

impl Instruction {
    fn operands(self) -> Operands {
        let known = INSTRUCTIONS.iter().find(|(name, _)| *name == self.name);
        known.map_or(&[], |(_, operands)| operands)
    }

    /// The defects that it can have: it is missing, or one of its operands is another.
    pub fn defects(self) -> impl Iterator<Item = Defect> {
        let missing = (!GIVE_VALUES.contains(&self.name)).then_some(Missing);
        let changes = self.operands().iter().flat_map(|(_, changes)| *changes).copied();
        missing.into_iter().chain(changes).map(move |change| Defect { instruction: self, change })
    }
}

impl Defect {
    /// The operand that is another, by name; none where the instruction is missing.
    #[must_use]
    pub fn operand(&self) -> Option<&'static str> {
        let number = match self.change {
            Missing => return None,
            Added(number, _) | Flipped(number, _) => number,
        };
        let of = self.instruction.operands();
        Some(of.get(number).map_or("operand", |(name, _)| *name))
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instruction, change } = self;
        let operand = self.operand().unwrap_or_default();
        match change {
            Missing => write!(f, "without {instruction}"),
            Added(_, by) => write!(f, "{instruction}, with {operand} {by:+}"),
            Flipped(_, bits) => write!(f, "{instruction}, with {operand} ^ {bits:#x}"),
        }
    }
}

/// A word that is counted modulo 2^32.
#[expect(clippy::cast_possible_truncation, reason = "as it is counted")]
pub(super) fn low_word(operand: u64) -> u32 {
    operand as u32
}

impl Thread<'_> {
    /// The operands of an instruction at a line, as the launch has them; `first` is the number of the first.
    pub(super) fn altered<const N: usize>(
        &self,
        (name, at): (&'static str, &'static Location<'static>),
        first: usize,
        mut operands: [u64; N],
    ) -> [u64; N] {
        let Some(Defect { instruction, change }) = self.block.launch.defect else {
            return operands;
        };
        if instruction == (Instruction { name, at }) {
            let number = match change {
                Missing => return operands,
                Added(number, _) | Flipped(number, _) => number.wrapping_sub(first),
            };
            if let Some(operand) = operands.get_mut(number) {
                *operand = match change {
                    Missing => *operand,
                    Added(_, by) => operand.wrapping_add_signed(by),
                    Flipped(_, bits) => *operand ^ bits,
                };
            }
        }
        operands
    }

    /// The same of operands of 32 bits, of which the first is the instruction's first.
    pub(super) fn altered_words<const N: usize>(
        &self,
        of: (&'static str, &'static Location<'static>),
        operands: [u32; N],
    ) -> [u32; N] {
        if self.block.launch.defect.is_none() {
            return operands;
        }
        self.altered(of, 0, operands.map(u64::from)).map(low_word)
    }

    /// The same of the map of a copy or a store.
    pub(super) fn altered_map(
        &self,
        of: (&'static str, &'static Location<'static>),
        first: usize,
        map: TensorMap,
    ) -> TensorMap {
        if self.block.launch.defect.is_none() {
            return map;
        }
        let TensorMap { dims, pitch, box_dims, swizzle, .. } = map;
        let swizzled = u64::from(swizzle == Swizzle::B128);
        let [box_width, box_lines] = box_dims.map(u64::from);
        let fields = [dims[0], dims[1], pitch, box_width, box_lines, swizzled];
        let [width, lines, pitch, box_width, box_lines, swizzled] = self.altered(of, first, fields);
        TensorMap {
            dims: [width, lines],
            pitch,
            box_dims: [box_width, box_lines].map(low_word),
            swizzle: if swizzled == 1 { Swizzle::B128 } else { Swizzle::None },
            ..map
        }
    }

    /// The same of the matrix of a copy or a store of rank 3, and of its map.
    pub(super) fn altered_matrix(
        &self,
        of: (&'static str, &'static Location<'static>),
        first: usize,
        (map, coords): (TensorMap, Coords),
    ) -> (TensorMap, Coords) {
        let (Some(z), Some(Matrices { count, stride }), Some(_)) =
            (coords.z, map.matrices, &self.block.launch.defect)
        else {
            return (map, coords);
        };
        let [z, count, stride] = self.altered(of, first, [z.into(), count, stride]);
        let matrices = Some(Matrices { count, stride });
        (TensorMap { matrices, ..map }, Coords { z: Some(low_word(z)), ..coords })
    }
}
