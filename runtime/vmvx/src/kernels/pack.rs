//! The `pack` and `unpack` kernels: copy a matrix to a tiled layout and back.

use super::work::KernelWork;
#[cfg(test)]
use super::work::audit;
use crate::hal::vmvx_format::{PackFlags, PackType, TYPE_MASK};
use crate::matrix_view::{CheckedMatrix, MatrixView};
use crate::{Result, Status};

/// Elements of a row of a tile that are copied at once.
const PIECE: usize = 128;

/// A matrix and its tiled form, as the arguments of a call describe them.
pub(crate) struct Tiling<'a> {
    pub matrix: MatrixView<'a>,
    pub matrix_sizes: [u64; 2],
    /// Rows of tiles, each without gaps.
    pub tiles: MatrixView<'a>,
    /// Rows and columns of tiles, rows and columns of elements of a tile, as they are stored.
    pub tile_sizes: [u64; 4],
    pub flags: u32,
}

/// The layout of tiles, in the directions of the matrix.
#[derive(Clone, Copy)]
struct Layout {
    /// Sizes of the matrix.
    sizes: [usize; 2],
    /// Numbers of tiles.
    outer: [usize; 2],
    /// Sizes of a tile.
    inner: [usize; 2],
    /// Distances between tiles.
    outer_strides: [usize; 2],
    /// Distances between the elements of a tile.
    inner_strides: [usize; 2],
}

impl Tiling<'_> {
    /// Copies the matrix to the tiles, and the low bits of `padding` to elements of tiles outside of the matrix.
    pub fn pack(&self, padding: u64) -> Result<()> {
        let width = match self.element()? {
            PackType::I8I8 => 1,
            PackType::F16F16 | PackType::BF16BF16 => 2,
            _ => 4,
        };
        let (outer_columns, flags) = (self.row_of_tiles()?, self.flags()?);
        if self.tile_sizes.contains(&0) {
            return Ok(());
        }
        let tiles = self.tiles.writable(width, [self.tile_sizes[0], outer_columns])?;
        let matrix = self.matrix.readable(width, self.matrix_sizes)?;
        let layout = self.layout(flags, tiles)?;
        let padding = padding.to_le_bytes();
        // SAFETY: both views were checked with these sizes, and the layout only has elements of them.
        unsafe {
            match width {
                1 => pack::<1>(layout, matrix, tiles, [padding[0]]),
                2 => pack::<2>(layout, matrix, tiles, [padding[0], padding[1]]),
                _ => pack::<4>(layout, matrix, tiles, [padding[0], padding[1], padding[2], padding[3]]),
            }
        }
    }

    /// Copies the tiles to the matrix, except for elements outside of it.
    pub fn unpack(&self) -> Result<()> {
        let width = match self.element()? {
            PackType::I8I8 => return Err(Status::unimplemented("`unpack` of bytes")),
            PackType::F16F16 | PackType::BF16BF16 => 2,
            _ => 4,
        };
        let (outer_columns, flags) = (self.row_of_tiles()?, self.flags()?);
        if self.matrix_sizes.contains(&0) {
            return Ok(());
        }
        let matrix = self.matrix.writable(width, self.matrix_sizes)?;
        let tiles = self.tiles.readable(width, [self.tile_sizes[0], outer_columns])?;
        let layout = self.layout(flags, tiles)?;
        // SAFETY: both views were checked with these sizes, and the layout only has elements of them.
        unsafe {
            match width {
                2 => unpack::<2>(layout, matrix, tiles),
                _ => unpack::<4>(layout, matrix, tiles),
            }
        }
    }

    fn element(&self) -> Result<PackType> {
        let element = PackType(self.flags & TYPE_MASK);
        match element.name() {
            Some(_) => Ok(element),
            None => Err(Status::invalid_argument(format!("packed matrices have no element type {element:?}"))),
        }
    }

    fn flags(&self) -> Result<PackFlags> {
        PackFlags::from_number(self.flags & !TYPE_MASK)
    }

    /// Elements of a row of tiles.
    fn row_of_tiles(&self) -> Result<u64> {
        let [_, columns, tile_rows, tile_columns] = self.tile_sizes;
        let elements = columns.checked_mul(tile_rows).and_then(|elements| elements.checked_mul(tile_columns));
        elements.ok_or_else(|| {
            Status::out_of_range(format!(
                "rows of {columns} tiles of {tile_rows} x {tile_columns} elements do not fit 64 bits"
            ))
        })
    }

    /// The layout of tiles that were checked to be in memory, so that their sizes fit `usize`.
    fn layout(&self, flags: PackFlags, tiles: CheckedMatrix) -> Result<Layout> {
        let [rows, columns, tile_rows, tile_columns] = self.tile_sizes.map(|size| size as usize);
        let (mut outer, mut outer_strides) =
            ([rows, columns], [tiles.strides[0], tile_rows.saturating_mul(tile_columns)]);
        let (mut inner, mut inner_strides) = ([tile_rows, tile_columns], [tile_columns, 1]);
        if flags.contains(PackFlags::TRANSPOSE_OUTER) {
            outer.reverse();
            outer_strides.reverse();
        }
        if flags.contains(PackFlags::TRANSPOSE_INNER) {
            inner.reverse();
            inner_strides.reverse();
        }
        let sizes = self.matrix_sizes.map(|size| size as usize);
        for direction in [0, 1] {
            // If one size is zero nothing is in memory, and the others may be anything.
            let covered = outer[direction].saturating_mul(inner[direction]) as u64;
            if covered < self.matrix_sizes[direction] {
                return Err(Status::invalid_argument(format!(
                    "{} tiles of {} elements do not cover the {} elements of the matrix",
                    outer[direction], inner[direction], self.matrix_sizes[direction]
                )));
            }
        }
        Ok(Layout { sizes, outer, inner, outer_strides, inner_strides })
    }
}

/// # Safety
/// `matrix` must be readable and `tiles` writable for all elements of the layout, of `WIDTH` bytes.
unsafe fn pack<const WIDTH: usize>(
    layout: Layout,
    matrix: CheckedMatrix,
    tiles: CheckedMatrix,
    padding: [u8; WIDTH],
) -> Result<()> {
    let mut work = KernelWork::default();
    let (source, target) = (matrix.data.cast::<[u8; WIDTH]>(), tiles.data.cast::<[u8; WIDTH]>());
    let Layout { sizes, outer, inner, outer_strides, inner_strides } = layout;
    for outer_row in 0..outer[0] {
        let first_row = outer_row * inner[0];
        let rows = inner[0].min(sizes[0].saturating_sub(first_row));
        for outer_column in 0..outer[1] {
            let first_column = outer_column * inner[1];
            let columns = inner[1].min(sizes[1].saturating_sub(first_column));
            // SAFETY: the tile is one of the layout, `rows` and `columns` of it are in the matrix, and both were
            // checked.
            unsafe {
                let tile = target.add(outer_row * outer_strides[0] + outer_column * outer_strides[1]);
                if rows < inner[0] || columns < inner[1] {
                    for first in (0..inner[0] * inner[1]).step_by(PIECE) {
                        let last = (inner[0] * inner[1]).min(first + PIECE);
                        work.row(last - first, [WIDTH])?;
                        #[cfg(test)]
                        audit::done(last - first);
                        for element in first..last {
                            tile.add(element).write(padding);
                        }
                    }
                }
                if rows > 0 && columns > 0 {
                    let from = source.add(first_row * matrix.strides[0] + first_column * matrix.strides[1]);
                    transfer(from, matrix.strides, tile, inner_strides, [rows, columns], &mut work)?;
                }
            }
        }
    }
    Ok(())
}

/// # Safety
/// `tiles` must be readable and `matrix` writable for all elements of the layout, of `WIDTH` bytes.
unsafe fn unpack<const WIDTH: usize>(layout: Layout, matrix: CheckedMatrix, tiles: CheckedMatrix) -> Result<()> {
    let mut work = KernelWork::default();
    let (source, target) = (tiles.data.cast::<[u8; WIDTH]>(), matrix.data.cast::<[u8; WIDTH]>());
    let Layout { sizes, outer: _, inner, outer_strides, inner_strides } = layout;
    for (outer_row, first_row) in (0..sizes[0]).step_by(inner[0]).enumerate() {
        let rows = inner[0].min(sizes[0] - first_row);
        for (outer_column, first_column) in (0..sizes[1]).step_by(inner[1]).enumerate() {
            let columns = inner[1].min(sizes[1] - first_column);
            // SAFETY: the tile is one of the layout, `rows` and `columns` of it are in the matrix, and both were
            // checked.
            unsafe {
                let tile = source.add(outer_row * outer_strides[0] + outer_column * outer_strides[1]);
                let to = target.add(first_row * matrix.strides[0] + first_column * matrix.strides[1]);
                transfer(tile, inner_strides, to, matrix.strides, [rows, columns], &mut work)?;
            }
        }
    }
    Ok(())
}

/// Copies a block of elements. Common tile shapes have loops of constant length.
///
/// # Safety
/// All elements must be readable at `from` and writable at `to`.
#[inline]
unsafe fn transfer<const WIDTH: usize>(
    from: *const [u8; WIDTH],
    from_strides: [usize; 2],
    to: *mut [u8; WIDTH],
    to_strides: [usize; 2],
    sizes: [usize; 2],
    work: &mut KernelWork,
) -> Result<()> {
    let distances = [from_strides[1], to_strides[1]].map(|stride| stride.saturating_mul(WIDTH));
    // SAFETY: the caller guarantees that all elements are readable at `from` and writable at `to`.
    unsafe {
        match (sizes, from_strides[1], to_strides[1]) {
            ([rows, 4], 1, 1) => rows_of::<WIDTH, 4>(from, from_strides[0], to, to_strides[0], rows, work)?,
            ([rows, 8], 1, 1) => rows_of::<WIDTH, 8>(from, from_strides[0], to, to_strides[0], rows, work)?,
            ([rows, 16], 1, 1) => rows_of::<WIDTH, 16>(from, from_strides[0], to, to_strides[0], rows, work)?,
            ([8, 4], _, _) => block::<WIDTH, 8, 4>(from, from_strides, to, to_strides, work)?,
            ([4, 8], _, _) => block::<WIDTH, 4, 8>(from, from_strides, to, to_strides, work)?,
            ([8, 8], _, _) => block::<WIDTH, 8, 8>(from, from_strides, to, to_strides, work)?,
            ([rows, columns], _, _) => {
                for row in 0..rows {
                    for first in (0..columns).step_by(PIECE) {
                        let last = columns.min(first + PIECE);
                        work.row(last - first, distances)?;
                        #[cfg(test)]
                        audit::done(last - first);
                        for column in first..last {
                            let element = from.add(row * from_strides[0] + column * from_strides[1]).read();
                            to.add(row * to_strides[0] + column * to_strides[1]).write(element);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Copies rows of `COLUMNS` adjacent elements.
///
/// # Safety
/// As for [`transfer`].
#[inline(always)]
unsafe fn rows_of<const WIDTH: usize, const COLUMNS: usize>(
    from: *const [u8; WIDTH],
    from_stride: usize,
    to: *mut [u8; WIDTH],
    to_stride: usize,
    rows: usize,
    work: &mut KernelWork,
) -> Result<()> {
    for row in 0..rows {
        work.row(COLUMNS, [0; 2])?;
        #[cfg(test)]
        audit::done(COLUMNS);
        // SAFETY: the caller guarantees that all elements are readable at `from` and writable at `to`. The row is read
        // as a whole before it is written.
        unsafe {
            let elements = from.add(row * from_stride).cast::<[[u8; WIDTH]; COLUMNS]>().read();
            to.add(row * to_stride).cast::<[[u8; WIDTH]; COLUMNS]>().write(elements);
        }
    }
    Ok(())
}

/// Copies `ROWS` by `COLUMNS` elements.
///
/// # Safety
/// As for [`transfer`].
#[inline(always)]
unsafe fn block<const WIDTH: usize, const ROWS: usize, const COLUMNS: usize>(
    from: *const [u8; WIDTH],
    from_strides: [usize; 2],
    to: *mut [u8; WIDTH],
    to_strides: [usize; 2],
    work: &mut KernelWork,
) -> Result<()> {
    work.row(
        ROWS * COLUMNS,
        [from_strides, to_strides].map(|strides| strides[0].max(strides[1]).saturating_mul(WIDTH)),
    )?;
    #[cfg(test)]
    audit::done(ROWS * COLUMNS);
    let mut elements = [[[0; WIDTH]; COLUMNS]; ROWS];
    for (row, elements) in elements.iter_mut().enumerate() {
        for (column, element) in elements.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that all elements are readable at `from` and writable at `to`.
            *element = unsafe { from.add(row * from_strides[0] + column * from_strides[1]).read() };
        }
    }
    for (row, elements) in elements.iter().enumerate() {
        for (column, element) in elements.iter().enumerate() {
            // SAFETY: the caller guarantees that all elements are readable at `from` and writable at `to`.
            unsafe { to.add(row * to_strides[0] + column * to_strides[1]).write(*element) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Buffer;

    const SIZES: [([u64; 2], [u64; 4]); 9] = [
        ([16, 16], [2, 4, 8, 4]),
        ([13, 9], [2, 3, 8, 4]),
        ([1, 1], [1, 1, 8, 8]),
        ([7, 31], [4, 4, 2, 8]),
        ([5, 16], [5, 1, 1, 16]),
        ([12, 10], [3, 4, 4, 3]),
        ([0, 3], [2, 1, 2, 3]),
        ([9, 9], [2, 2, 8, 8]),
        ([6, 20], [4, 5, 3, 5]),
    ];

    fn types() -> [(PackType, usize); 5] {
        [
            (PackType::F32F32, 4),
            (PackType::I8I8, 1),
            (PackType::I32I32, 4),
            (PackType::F16F16, 2),
            (PackType::BF16BF16, 2),
        ]
    }

    /// For each element of the tiles, which one of the matrix it is, by definition.
    fn element_of_matrix(sizes: [u64; 2], tile_sizes: [u64; 4], flags: PackFlags, index: [u64; 4]) -> Option<[u64; 2]> {
        let ([mut i, mut j], [mut k, mut l]) = ([index[0], index[1]], [index[2], index[3]]);
        let [mut rows, mut columns] = [tile_sizes[2], tile_sizes[3]];
        if flags.contains(PackFlags::TRANSPOSE_OUTER) {
            (i, j) = (j, i);
        }
        if flags.contains(PackFlags::TRANSPOSE_INNER) {
            (k, l) = (l, k);
            (rows, columns) = (columns, rows);
        }
        let element = [i * rows + k, j * columns + l];
        (element[0] < sizes[0] && element[1] < sizes[1]).then_some(element)
    }

    #[test]
    fn tiles_have_the_elements_of_the_matrix_and_the_padding() {
        let all = [PackFlags::empty(), PackFlags::TRANSPOSE_INNER, PackFlags::TRANSPOSE_OUTER, PackFlags::all()];
        for (((ty, width), (sizes, tiles)), flags) in types()
            .into_iter()
            .flat_map(|ty| SIZES.map(|sizes| (ty, sizes)))
            .flat_map(|case| all.map(|flags| (case, flags)))
        {
            // The sizes are those in the directions of the matrix.
            let mut tiles = tiles;
            if flags.contains(PackFlags::TRANSPOSE_OUTER) {
                tiles.swap(0, 1);
            }
            if flags.contains(PackFlags::TRANSPOSE_INNER) {
                tiles.swap(2, 3);
            }
            let (matrix_strides, row_of_tiles) = ([sizes[1] * 2 + 3, 2], tiles[1] * tiles[2] * tiles[3] + 5);
            let matrix: Vec<u8> =
                (0..(sizes[0] * matrix_strides[0] + 2) as usize * width).map(|byte| (byte * 7) as u8).collect();
            let packed =
                Buffer::copy_of(&vec![0xEE; (tiles[0] * row_of_tiles + 1) as usize * width]).expect("allocates");
            let source = Buffer::copy_of(&matrix).expect("allocates");
            let view = |name, buffer, strides| MatrixView { name, buffer, offset: 1, strides };
            let tiling = Tiling {
                matrix: view("in", &source, matrix_strides),
                matrix_sizes: sizes,
                tiles: view("out", &packed, [row_of_tiles, 1]),
                tile_sizes: tiles,
                flags: ty.0 | flags.bits(),
            };
            let padding = 0x0807_0605_1413_1211u64;
            tiling.pack(padding).expect("is in range");
            let mut expected = vec![0xEE; packed.len()];
            for index in 0..tiles.iter().product() {
                let place = [
                    index / (tiles[1] * tiles[2] * tiles[3]),
                    index / (tiles[2] * tiles[3]) % tiles[1],
                    index / tiles[3] % tiles[2],
                    index % tiles[3],
                ];
                let inside = ((place[1] * tiles[2] + place[2]) * tiles[3]) + place[3];
                let target = (1 + place[0] * row_of_tiles + inside) as usize * width;
                let element = match element_of_matrix(sizes, tiles, flags, place) {
                    Some([i, j]) => {
                        let start = (1 + i * matrix_strides[0] + j * matrix_strides[1]) as usize * width;
                        matrix[start..start + width].to_vec()
                    }
                    None => padding.to_le_bytes()[..width].to_vec(),
                };
                expected[target..target + width].copy_from_slice(&element);
            }
            assert!(packed.to_vec() == expected, "{ty:?} {sizes:?} {tiles:?} {flags:?}");
            if ty == PackType::I8I8 {
                continue;
            }
            // And back: elements that are not the matrix's are left alone.
            let restored = Buffer::copy_of(&vec![0xDD; matrix.len()]).expect("allocates");
            let back = Tiling {
                matrix: view("out", &restored, matrix_strides),
                tiles: view("in", &packed, [row_of_tiles, 1]),
                ..tiling
            };
            back.unpack().expect("is in range");
            let mut expected = vec![0xDD; matrix.len()];
            for (i, j) in (0..sizes[0]).flat_map(|i| (0..sizes[1]).map(move |j| (i, j))) {
                let start = (1 + i * matrix_strides[0] + j * matrix_strides[1]) as usize * width;
                expected[start..start + width].copy_from_slice(&matrix[start..start + width]);
            }
            assert!(restored.to_vec() == expected, "{ty:?} {sizes:?} {tiles:?} {flags:?}");
        }
    }

    #[test]
    fn tiles_that_do_not_cover_the_matrix_are_refused() {
        let buffer = Buffer::allocate(4096, 0).expect("allocates");
        let view = MatrixView { name: "view", buffer: &buffer, offset: 0, strides: [9, 1] };
        let tiling = Tiling { matrix: view, matrix_sizes: [9, 9], tiles: view, tile_sizes: [1, 2, 8, 8], flags: 1 };
        assert_eq!(tiling.pack(0).expect_err("is too small").code(), crate::status::StatusCode::InvalidArgument);
        assert_eq!(tiling.unpack().expect_err("is too small").code(), crate::status::StatusCode::InvalidArgument);
        let unknown = Tiling { flags: 0x901, ..tiling };
        assert_eq!(unknown.pack(0).expect_err("has unknown flags").code(), crate::status::StatusCode::InvalidArgument);
    }
}
