package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shape is one element of a drawing.
type shape struct {
	name string
	attr map[string]string
	text string
}

func (s shape) float(t *testing.T, key string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s.attr[key], 64)
	if err != nil {
		t.Fatalf("<%s> %s=%q is no number", s.name, key, s.attr[key])
	}
	return v
}

// shapes reads a drawing, which must be well formed.
func shapes(t *testing.T, svg string) []shape {
	t.Helper()
	var found []shape
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
		switch x := token.(type) {
		case xml.StartElement:
			s := shape{name: x.Name.Local, attr: map[string]string{}}
			for _, a := range x.Attr {
				s.attr[a.Name.Local] = a.Value
			}
			found = append(found, s)
		case xml.CharData:
			if n := len(found); n > 0 {
				found[n-1].text += strings.TrimSpace(string(x))
			}
		}
	}
}

func texts(all []shape) []string {
	var found []string
	for _, s := range all {
		if s.name == "text" {
			found = append(found, s.text)
		}
	}
	return found
}

func TestDrawing_saysWhatItShows(t *testing.T) {
	got := texts(shapes(t, drawChart(sample())))
	for _, want := range []string{
		"SQLite", "PostgreSQL", "10", "1,000", "10,000", "1.3 ×", "1.4 ×", "target ≤ 1.5", // the lines
		"1", "8", "64", "2.1", "3.4", // the rates
		"rate of 64", "rate to floor", "bytes <on> disk | text", "≥ 0.6", "≥ 2", "1.60", "0.70", // the bars
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no text %q in %q", want, got)
		}
	}
	for _, unwanted := range []string{"load of version 102", "writers", "save after 10"} {
		if slices.Contains(got, unwanted) {
			t.Errorf("%q is no ratio with a target of its own", unwanted)
		}
	}
}

func TestDrawing_barsEndLeftOfTheLineWhereTheTargetIsMet(t *testing.T) {
	all := shapes(t, drawChart(sample()))
	var line float64
	for _, s := range all {
		if s.name == "line" && s.attr["class"] == "target" && s.attr["x1"] == s.attr["x2"] {
			line = s.float(t, "x1")
		}
	}
	if line == 0 {
		t.Fatal("there is no target line")
	}
	var met, missed int
	for _, s := range all {
		if s.name != "rect" || s.attr["x"] != strconv.Itoa(barsLeft) {
			continue
		}
		if s.float(t, "x")+s.float(t, "width") <= line {
			met++
		} else {
			missed++
		}
	}
	if met != 3 || missed != 1 {
		t.Errorf("%d bars on target and %d beyond, want 3 and 1", met, missed)
	}
}

func TestDrawing_marksWhatIsMissed(t *testing.T) {
	var missed []string
	for _, s := range shapes(t, drawChart(sample())) {
		if slices.Contains(strings.Fields(s.attr["class"]), "missed") {
			missed = append(missed, s.text)
		}
	}
	if !slices.Equal(missed, []string{"1.60"}) {
		t.Errorf("marked as missed: %q", missed)
	}
}

// Whatever was measured, the drawing stays one that can be shown: numbers that
// are numbers, inside its frame.
func TestDrawing_staysWithinItsFrame(t *testing.T) {
	odd := sample()
	for i, v := range []float64{math.NaN(), math.Inf(1), 1e9, 0, -1} {
		odd.Stores[0].Results[i].Measured = v
	}
	odd.Stores[1].Results[1].Measured = 0
	one := sample()
	one.Stores = one.Stores[1:]
	for name, r := range map[string]Report{"sample": sample(), "odd": odd, "one store": one, "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			svg := drawChart(r)
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("not a number in\n%s", svg)
			}
			all := shapes(t, svg)
			height := all[0].float(t, "height")
			for _, s := range all {
				for _, key := range []string{"x", "x1", "x2", "cx", "y", "y1", "y2", "cy"} {
					if s.attr[key] == "" {
						continue
					}
					limit := float64(chartWidth)
					if strings.Contains(key, "y") {
						limit = height
					}
					if v := s.float(t, key); v < 0 || v > limit {
						t.Errorf("<%s> %s = %v is outside: %q", s.name, key, v, s.text)
					}
				}
			}
		})
	}
}

func TestDrawing_isTheSameEveryTimeAndNeedsNothing(t *testing.T) {
	svg := drawChart(sample())
	if svg != drawChart(sample()) {
		t.Error("two drawings of one report differ")
	}
	for _, s := range shapes(t, svg) {
		if slices.Contains([]string{"script", "image", "foreignObject", "use", "a"}, s.name) || s.attr["href"] != "" {
			t.Errorf("<%s> needs something from elsewhere", s.name)
		}
	}
	if !strings.Contains(svg, "prefers-color-scheme: dark") {
		t.Error("it has no colours for the dark")
	}
}

func TestTargetRows_keepTheOrderOfEachStore(t *testing.T) {
	result := func(key string) Result { return Result{Key: key, Name: key, Measured: 1, Target: atMost(1)} }
	rows := targetRows([]StoreResults{
		{Results: []Result{result("a"), result("only first"), result("z")}},
		{Results: []Result{result("a"), result("only second"), result("z")}},
	})
	var keys []string
	for _, row := range rows {
		keys = append(keys, row.key)
	}
	if want := []string{"a", "only second", "only first", "z"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}

func TestLabels_doNotLieOnEachOther(t *testing.T) {
	var spots labelSpots
	placed := []float64{spots.free(100), spots.free(103), spots.free(98)}
	for i, a := range placed {
		for _, b := range placed[:i] {
			if math.Abs(a-b) < 12 {
				t.Errorf("labels at %v and %v", a, b)
			}
		}
	}
}
