//! Circles of a graph: its strongly connected components of more than one node.

use std::collections::BTreeSet;

/// The circles of the graph whose node `n` has edges to `edges[n]`, the largest first.
pub fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    // Kosaraju: nodes in the order in which a walk leaves them, then walks against the edges from the last of them.
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    for node in 0..edges.len() {
        walk(node, &|node| edges[node].iter().copied().collect(), &mut seen, &mut order);
    }
    let mut against = vec![Vec::new(); edges.len()];
    for (node, targets) in edges.iter().enumerate() {
        targets.iter().for_each(|target| against[*target].push(node));
    }
    let mut seen = vec![false; edges.len()];
    let mut circles = Vec::new();
    for node in order.into_iter().rev() {
        let mut component = Vec::new();
        walk(node, &|node| against[node].clone(), &mut seen, &mut component);
        if component.len() > 1 {
            component.sort_unstable();
            circles.push(component);
        }
    }
    circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle[0]));
    circles
}

/// Appends what is reached from `node` and was not seen, each after what it reaches.
fn walk(node: usize, next: &dyn Fn(usize) -> Vec<usize>, seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[node], true) {
        return;
    }
    for target in next(node) {
        walk(target, next, seen, order);
    }
    order.push(node);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(edges: &[&[usize]]) -> Vec<Vec<usize>> {
        circles(&edges.iter().map(|targets| targets.iter().copied().collect()).collect::<Vec<_>>())
    }

    #[test]
    fn circles_are_found_whatever_leads_to_them() {
        assert_eq!(of(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(of(&[&[1, 2], &[2], &[]]), Vec::<Vec<usize>>::new());
        assert_eq!(of(&[&[1], &[0, 2], &[]]), [[0, 1]]);
        // Two circles with a bridge, the larger one first, and a node that uses itself.
        assert_eq!(of(&[&[1], &[0, 2], &[3], &[4], &[2], &[5, 0]]), [vec![2, 3, 4], vec![0, 1]]);
    }
}
