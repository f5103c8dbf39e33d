package benchmark

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Canvas writes SVG. Coordinates have one decimal at most.
type Canvas struct{ b strings.Builder }

// style is drawn by whoever shows the picture, in the colours they read with.
const style = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 }
.head { font-size: 14px; font-weight: 600 }
.note { font-size: 11px; fill: #59636e }
.small { font-size: 10px }
.missed { fill: #c93c37; font-weight: 600 }
.value { font-weight: 600 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.paper { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #818b98; stroke-width: 1 }
.target { stroke: #c93c37; stroke-width: 1.5; stroke-dasharray: 5 4 }
.fill-0 { fill: #1f7a8c }
.fill-1 { fill: #d9822b }
.fill-2 { fill: #7b6cb5 }
.line-0 { stroke: #1f7a8c; stroke-width: 2.5; fill: none }
.line-1 { stroke: #d9822b; stroke-width: 2.5; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note { fill: #9198a1 }
.missed { fill: #f47067 }
.paper { fill: #0d1117 }
.grid { stroke: #2a313c }
.axis { stroke: #656c76 }
.target { stroke: #f47067 }
.fill-0 { fill: #4fb3c8 }
.fill-1 { fill: #f0a35e }
.fill-2 { fill: #a99be0 }
.line-0 { stroke: #4fb3c8 }
.line-1 { stroke: #f0a35e }
}
</style>
`

// Begin starts the picture.
func (c *Canvas) Begin(width, height int, title, description string) {
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&c.b, "<title>%s</title>\n<desc>%s</desc>\n", escape(title), escape(description))
	c.b.WriteString(style)
	c.b.WriteString(`<rect class="paper" width="100%" height="100%" rx="6"/>` + "\n")
}

// End returns the picture.
func (c *Canvas) End() string {
	c.b.WriteString("</svg>\n")
	return c.b.String()
}

// Append draws what was drawn on another canvas.
func (c *Canvas) Append(other *Canvas) { c.b.WriteString(other.b.String()) }

// Text writes at a place.
func (c *Canvas) Text(x, y float64, class, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s">%s</text>`+"\n", coord(x), coord(y), class, escape(text))
}

// Line draws from one place to another.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`+"\n", coord(x1), coord(y1), coord(x2), coord(y2), class)
}

// Rect draws a rectangle.
func (c *Canvas) Rect(x, y, width, height float64, class string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" rx="1.5" class="%s"/>`+"\n", coord(x), coord(y), coord(width), coord(height), class)
}

// Circle draws a dot.
func (c *Canvas) Circle(x, y float64, class string) {
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="4" class="%s"/>`+"\n", coord(x), coord(y), class)
}

// Point is a place in the picture and the value it stands for.
type Point struct{ X, Y, Value float64 }

// Polyline connects places.
func (c *Canvas) Polyline(points []Point, class string) {
	var at []string
	for _, p := range points {
		at = append(at, coord(p.X)+","+coord(p.Y))
	}
	fmt.Fprintf(&c.b, `<polyline points="%s" class="%s"/>`+"\n", strings.Join(at, " "), class)
}

func coord(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
