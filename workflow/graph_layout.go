package workflow

import (
	"cmp"
	"slices"
)

// The sizes of a graph. Layers stand side by side, from left to right.
const (
	graphNodeWidth  = 180
	graphNodeHeight = 48
	graphLayerGap   = 80 // between layers
	graphRowGap     = 24 // between the nodes of a layer
)

// arrange gives every node its place: a layer to the right of all that lead to
// it, and within the layer a row near its neighbours. The same graph is always
// arranged in the same way.
func (g *Graph) arrange() {
	at := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		at[n.ID] = i
	}
	out, in := make([][]int, len(g.Nodes)), make([][]int, len(g.Nodes)) // without edges that lead back
	g.findLoops(at)
	for _, e := range g.Edges {
		if !e.Back {
			from, to := at[e.From], at[e.To]
			out[from], in[to] = append(out[from], to), append(in[to], from)
		}
	}
	layers := layersOf(out, in)
	orderLayers(layers, out, in)
	rows := 0
	for _, layer := range layers {
		rows = max(rows, len(layer))
	}
	for x, layer := range layers {
		top := (rows - len(layer)) * (graphNodeHeight + graphRowGap) / 2
		for y, i := range layer {
			g.Nodes[i].X = x * (graphNodeWidth + graphLayerGap)
			g.Nodes[i].Y = top + y*(graphNodeHeight+graphRowGap)
		}
	}
	g.NodeWidth, g.NodeHeight = graphNodeWidth, graphNodeHeight
	g.Width = max(0, len(layers)*(graphNodeWidth+graphLayerGap)-graphLayerGap)
	g.Height = max(0, rows*(graphNodeHeight+graphRowGap)-graphRowGap)
}

// findLoops marks the edges that lead back to a node on the way to them, seen
// from the first node on.
func (g *Graph) findLoops(at map[string]int) {
	edges := make([][]int, len(g.Nodes)) // by the node they leave
	for k, e := range g.Edges {
		edges[at[e.From]] = append(edges[at[e.From]], k)
	}
	const unseen, onTheWay, left = 0, 1, 2
	seen := make([]int, len(g.Nodes))
	var visit func(i int)
	visit = func(i int) {
		seen[i] = onTheWay
		for _, k := range edges[i] {
			to := at[g.Edges[k].To]
			switch seen[to] {
			case unseen:
				visit(to)
			case onTheWay:
				g.Edges[k].Back = true
			}
		}
		seen[i] = left
	}
	for i := range g.Nodes {
		if seen[i] == unseen {
			visit(i)
		}
	}
}

// layersOf returns the nodes by layer, which is the length of the longest way to
// them. There are no loops.
func layersOf(out, in [][]int) [][]int {
	var layers [][]int
	waits, depth := make([]int, len(in)), make([]int, len(in))
	var ready []int
	for i := range in {
		if waits[i] = len(in[i]); waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		if depth[i] == len(layers) {
			layers = append(layers, nil)
		}
		layers[depth[i]] = append(layers[depth[i]], i)
		for _, to := range out[i] {
			depth[to] = max(depth[to], depth[i]+1)
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	return layers
}

// orderLayers moves nodes within their layers to where their neighbours are, so
// that edges cross less: to and fro, twice.
func orderLayers(layers, out, in [][]int) {
	row := make([]float64, len(in)) // from 0 to 1, in the layer
	number := func(layer []int) {
		for y, i := range layer {
			row[i] = (float64(y) + 0.5) / float64(len(layer))
		}
	}
	for _, layer := range layers {
		slices.Sort(layer) // as the spec has them
		number(layer)
	}
	wanted := make([]float64, len(in))
	sweep := func(layer []int, near [][]int) {
		for _, i := range layer {
			wanted[i] = row[i]
			if len(near[i]) > 0 {
				wanted[i] = 0
				for _, j := range near[i] {
					wanted[i] += row[j] / float64(len(near[i]))
				}
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(wanted[a], wanted[b]) })
		number(layer)
	}
	for range 2 {
		for _, layer := range layers {
			sweep(layer, in)
		}
		for _, layer := range slices.Backward(layers) {
			sweep(layer, out)
		}
	}
}
