package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// The chart has two panels side by side and one below them.
const (
	chartWidth  = 880
	margin      = 24
	panelTop    = 118
	panelHeight = 180
	panelWidth  = 388
	rightPanel  = chartWidth - margin - panelWidth
	barsTop     = panelTop + panelHeight + 98
	barsLeft    = 352
	barsWidth   = 360
	barHeight   = 10
	barGap      = 12
)

// drawChart is the chart of a report. The same report gives the same bytes.
func drawChart(r Report) string {
	c := &benchmark.Canvas{}
	rows := targetRows(r.Stores)
	height := barsTop + len(rows)*rowHeight(len(r.Stores)) + 44
	c.Begin(chartWidth, height, "Holdfast's durable stores against their targets",
		"Saves by length of history, saves of many sessions at once, and every measured ratio against its target. The numbers stand in performance.md.")
	c.Text(margin, 34, "title", "The durable stores against their targets")
	legend(c, r.Stores)
	historyPanel(c, r.Stores)
	ratePanel(c, r.Stores)
	targetPanel(c, r.Stores, rows)
	return c.End()
}

func legend(c *benchmark.Canvas, stores []StoreResults) {
	x := float64(chartWidth - margin)
	for i, s := range slices.Backward(stores) {
		c.Text(x, 34, "label end", s.Store)
		x -= 7*float64(len(s.Store)) + 18
		c.Rect(x, 25, 10, 10, fill(i))
		x -= 16
	}
}

func fill(store int) string { return fmt.Sprint("fill-", store%2) }

// historyPanel draws saves by length of history, as multiples of the floor.
func historyPanel(c *benchmark.Canvas, stores []StoreResults) {
	heading(c, margin, "A save, by messages that are already there", "× the least durable append the driver can do")
	lengths := []string{"10", "1,000", "10,000"}
	highest, bound := 0.0, 0.0
	for _, s := range stores {
		for i := range lengths {
			if r, ok := s.find(historyKey(i)); ok && drawable(r.Measured) {
				highest = max(highest, r.Measured)
				if r.Target != nil {
					bound = r.Target.Bound
				}
			}
		}
	}
	p := plot{left: margin + 28, width: panelWidth - 78, top: nice(max(highest, bound, 1) * 1.1)}
	p.grid(c)
	for i, length := range lengths {
		c.Text(p.at(i, len(lengths)), panelTop+panelHeight+18, "label middle", length)
	}
	labels := labelSpots{}
	for n, s := range stores {
		var points []benchmark.Point
		for i := range lengths {
			if r, ok := s.find(historyKey(i)); ok && drawable(r.Measured) {
				points = append(points, benchmark.Point{X: p.at(i, len(lengths)), Y: p.y(r.Measured), Value: r.Measured})
			}
		}
		if len(points) == 0 {
			continue
		}
		c.Polyline(points, fmt.Sprint("line-", n%2))
		for _, at := range points {
			c.Circle(at.X, at.Y, fill(n))
		}
		end := points[len(points)-1]
		c.Text(p.left+p.width+6, labels.free(end.Y+4), "value", fmt.Sprintf("%.1f ×", end.Value))
	}
	if bound > 0 {
		c.Line(p.left, p.y(bound), p.left+p.width, p.y(bound), "target")
		c.Text(p.left+p.width+6, labels.free(p.y(bound)+4), "note", "target ≤ "+benchmark.Number(bound))
	}
}

// ratePanel draws how much faster many sessions are than one.
func ratePanel(c *benchmark.Canvas, stores []StoreResults) {
	heading(c, rightPanel, "Saves per second, by sessions at once", "× those of one session")
	clients := []int{1, 8, manyClients}
	value := func(s StoreResults, n int) (float64, bool) {
		if n == 1 {
			return 1, true
		}
		r, ok := s.find(rateKey(n))
		return r.Measured, ok && drawable(r.Measured)
	}
	highest := 1.0
	for _, s := range stores {
		for _, n := range clients {
			if v, ok := value(s, n); ok {
				highest = max(highest, v)
			}
		}
	}
	p := plot{left: rightPanel + 28, width: panelWidth - 28, top: nice(highest * 1.1)}
	p.grid(c)
	const wide = 34.0
	for i, n := range clients {
		middle := p.left + p.width*(float64(i)+0.5)/float64(len(clients))
		c.Text(middle, panelTop+panelHeight+18, "label middle", fmt.Sprint(n))
		for k, s := range stores {
			v, ok := value(s, n)
			if !ok {
				continue
			}
			x := middle + (float64(k)-float64(len(stores))/2)*(wide+4) + 2
			c.Rect(x, p.y(v), wide, p.y(0)-p.y(v), fill(k))
			c.Text(x+wide/2, p.y(v)-5, "value middle", fmt.Sprintf("%.1f", v))
		}
	}
}

// targetRow is one target with what the stores that have it measured.
type targetRow struct {
	key, name string
	target    Target
	bars      []bar
}

type bar struct {
	Result
	store int
}

// targetRows are all ratios with a target that are not drawn elsewhere. What
// only one store has keeps its place between what both have.
func targetRows(stores []StoreResults) []targetRow {
	var rows []targetRow
	for n, s := range stores {
		next := 0
		for _, r := range s.Results {
			if r.Target == nil || r.Target.Relation == Exactly || !drawable(r.Measured) || strings.HasPrefix(r.Key, historyPrefix) {
				continue
			}
			at := slices.IndexFunc(rows, func(row targetRow) bool { return row.key == r.Key })
			if at < 0 {
				at = next
				rows = slices.Insert(rows, at, targetRow{key: r.Key, name: r.Name, target: *r.Target})
			}
			rows[at].bars = append(rows[at].bars, bar{r, n})
			next = at + 1
		}
	}
	return rows
}

func rowHeight(stores int) int { return stores*barHeight + barGap }

// targetPanel draws each ratio as a share of its target: what ends left of the
// line is on target. A target that is a least counts the other way round.
func targetPanel(c *benchmark.Canvas, stores []StoreResults, rows []targetRow) {
	const (
		most    = 2.0 // shares: longer bars are cut
		scale   = barsWidth / most
		values  = chartWidth - margin - 58
		targets = chartWidth - margin
	)
	c.Text(margin, barsTop-40, "head", "Every ratio against its target")
	c.Text(margin, barsTop-22, "note", "as a share of the target: what ends left of the line is on target; bars are cut at twice the target")
	c.Text(values, barsTop-8, "note end", "measured")
	c.Text(targets, barsTop-8, "note end", "target")
	bottom := float64(barsTop + len(rows)*rowHeight(len(stores)))
	c.Line(barsLeft+barsWidth, barsTop-4, barsLeft+barsWidth, bottom, "grid")
	for i, row := range rows {
		top := float64(barsTop + i*rowHeight(len(stores)))
		middle := top + float64(rowHeight(len(stores)))/2
		c.Text(barsLeft-12, middle+4, "label end", row.name)
		c.Text(targets, middle+4, "note end", row.target.String())
		y := middle - float64(len(row.bars)*barHeight)/2
		for _, bar := range row.bars {
			c.Rect(barsLeft, y, min(share(bar.Result), most)*scale, barHeight-1, fill(bar.store))
			c.Text(values, y+barHeight-1.5, "small end "+bar.Verdict(), bar.format())
			y += barHeight
		}
	}
	c.Line(barsLeft, barsTop-4, barsLeft, bottom, "axis")
	c.Line(barsLeft+scale, barsTop-4, barsLeft+scale, bottom, "target")
	c.Text(barsLeft+scale, bottom+18, "note middle", "target")
}

// share is how much of its target a result has used up.
func share(r Result) float64 {
	v := r.Measured / r.Target.Bound
	if r.Target.Relation == AtLeast {
		v = r.Target.Bound / r.Measured
	}
	if !drawable(v) {
		return 0
	}
	return v
}

// drawable reports whether a value has a place in a chart.
func drawable(v float64) bool { return v >= 0 && !math.IsInf(v, 1) } // no comparison with NaN holds

func heading(c *benchmark.Canvas, x float64, title, note string) {
	c.Text(x, panelTop-38, "head", title)
	c.Text(x, panelTop-20, "note", note)
}

// plot is the inner part of one of the upper panels.
type plot struct {
	left, width float64
	top         float64 // highest value
}

func (p plot) y(v float64) float64 { return panelTop + panelHeight*(1-v/p.top) }

// at is where the i-th of n points stands.
func (p plot) at(i, n int) float64 { return p.left + 24 + (p.width-48)*float64(i)/float64(n-1) }

func (p plot) grid(c *benchmark.Canvas) {
	const lines = 4
	for i := range lines + 1 {
		v := p.top * float64(i) / lines
		class := "grid"
		if i == 0 {
			class = "axis"
		}
		c.Line(p.left, p.y(v), p.left+p.width, p.y(v), class)
		c.Text(p.left-6, p.y(v)+4, "note end", benchmark.Number(v))
	}
}

// nice is the next number that four lines divide well.
func nice(v float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 6, 8} {
			if step*unit >= v {
				return step * unit
			}
		}
	}
}

// labelSpots keeps labels from lying on each other.
type labelSpots []float64

// free is the nearest height at which there is room.
func (l *labelSpots) free(y float64) float64 {
	const room = 15
	slices.Sort(*l)
	for _, taken := range *l {
		if math.Abs(y-taken) < room {
			y = taken + room
		}
	}
	*l = append(*l, y)
	return y
}
