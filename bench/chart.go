package main

import (
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// Where things are in the chart.
const (
	chartWidth = 820
	nameRight  = 330.0
	barsLeft   = 342.0
	barsRight  = 740.0
	chartTop   = 78.0
	barHeight  = 9.0
	rowGap     = 9.0
)

// bar is one contender's time in a row, as a multiple of ours.
type bar struct {
	contender int
	times     float64
}

// drawChart draws how many times as long as Holdfast each contender takes, on a
// logarithmic scale.
func drawChart(r Report) string {
	most := 2.0
	for _, x := range r.Rows {
		for _, b := range x.bars() {
			most = max(most, b.times)
		}
	}
	decades := math.Ceil(math.Log10(most))
	// A tenth of our time is at the left end, so that what is faster has a bar too.
	at := func(times float64) float64 {
		share := (math.Log10(max(times, 0.1)) + 1) / (decades + 1)
		return barsLeft + share*(barsRight-barsLeft)
	}
	body, height := &benchmark.Canvas{}, chartTop
	c := &benchmark.Canvas{}
	for _, store := range r.stores() {
		body.Text(24, height+4, "head", store)
		height += 14
		for _, x := range r.Rows {
			bars := x.bars()
			if x.Store != store || len(bars) < 2 { // nothing to compare
				continue
			}
			body.Text(nameRight, height+float64(len(bars))*barHeight/2+4, "end", x.Name)
			for _, b := range bars {
				body.Rect(barsLeft, height, at(b.times)-barsLeft, barHeight-1, fmt.Sprint("fill-", b.contender))
				body.Text(at(b.times)+5, height+barHeight-1, "small", fmt.Sprintf("%s ×", benchmark.Number(math.Round(b.times*10)/10)))
				height += barHeight
			}
			height += rowGap
		}
		height += 16
	}
	c.Begin(chartWidth, int(height)+24, "Holdfast beside others", "How many times as long as Holdfast other libraries take, on a logarithmic scale")
	c.Text(24, 32, "title", "Time of an operation, to that of Holdfast")
	x := 24.0
	for i, contender := range r.Contenders {
		c.Rect(x, 45, 10, 10, fmt.Sprint("fill-", i))
		c.Text(x+15, 54, "label", contender.Name)
		x += 40 + 7*float64(len(contender.Name))
	}
	c.Text(barsRight, 54, "note end", "shorter is better; logarithmic")
	for d := -1.0; d <= decades; d++ {
		value := math.Pow(10, d)
		c.Line(at(value), chartTop-8, at(value), height, "grid")
		c.Text(at(value), height+14, "note middle", benchmark.Number(value)+" ×")
	}
	c.Append(body)
	return c.End()
}

// bars compares every contender with the first.
func (r Row) bars() []bar {
	ours, _, ok := r.medians(0)
	if !ok || ours <= 0 {
		return nil
	}
	var found []bar
	for i := range r.Samples {
		if took, _, ok := r.medians(i); ok {
			found = append(found, bar{i, float64(took) / float64(ours)})
		}
	}
	return found
}
