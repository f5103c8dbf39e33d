package spec

import "slices"

// Layers are the tasks of a workflow by index: those of a layer depend only on
// those of earlier ones. Inside a layer they stand in the order in which
// finishing the layer before it frees them. Nil means that tasks wait for each
// other or for one that is not there, which Check reports.
func (w *Workflow) Layers() [][]int {
	layers, cycle := w.layers()
	if cycle != nil {
		return nil
	}
	return layers
}

// layers also finds a cycle, by the ids on it, the first one repeated.
func (w *Workflow) layers() (layers [][]int, cycle []string) {
	waits := make([]int, len(w.Tasks))
	frees := map[string][]int{}
	var layer []int
	for i, t := range w.Tasks {
		waits[i] = len(t.Deps)
		for _, dep := range t.Deps {
			frees[dep] = append(frees[dep], i)
		}
		if waits[i] == 0 {
			layer = append(layer, i)
		}
	}
	done := 0
	for len(layer) > 0 {
		layers = append(layers, layer)
		done += len(layer)
		var next []int
		for _, i := range layer {
			for _, j := range frees[w.Tasks[i].ID] {
				if waits[j]--; waits[j] == 0 {
					next = append(next, j)
				}
			}
		}
		layer = next
	}
	if done == len(w.Tasks) {
		return layers, nil
	}
	return nil, w.cycle(waits)
}

// cycle walks from a waiting task to one it waits for, until one comes again.
func (w *Workflow) cycle(waits []int) []string {
	at := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	var path []string
	for {
		t := w.Tasks[at]
		if i := slices.Index(path, t.ID); i >= 0 {
			return append(path[i:], t.ID)
		}
		path = append(path, t.ID)
		next := slices.IndexFunc(w.Tasks, func(u Task) bool {
			return slices.Contains(t.Deps, u.ID) && waits[slices.IndexFunc(w.Tasks, func(v Task) bool { return v.ID == u.ID })] > 0
		})
		if next < 0 {
			return path // it waits for a task that is not there
		}
		at = next
	}
}

func (w *Workflow) ids() []string {
	ids := make([]string, len(w.Tasks))
	for i, t := range w.Tasks {
		ids[i] = t.ID
	}
	return ids
}
