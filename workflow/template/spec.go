package template

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a format specification: how a value is laid out.
type spec struct {
	fill      string
	align     string // < > = ^ or nothing
	sign      string // + - space or nothing
	alternate bool   // #
	zeros     bool   // 0 before the width, and no align
	width     int
	group     string // , _ or nothing
	precision int    // -1 if not given
	verb      string
}

var specPattern = regexp.MustCompile(`^(?s:(.)?([<>=^]))?([-+ ])?(#)?(0)?([0-9]*)([,_])?(?:\.([0-9]+))?([bcdeEfFgGnosxX%])?$`)

// formatValue returns Python's format(v, text).
func (r *run) formatValue(v Value, text string) (string, error) {
	if text == "" {
		return r.text(v)
	}
	s, err := parseSpec(text)
	if err != nil {
		return "", err
	}
	if err := r.grow(s.width + max(s.precision, 0)); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case Str:
		return s.text(string(v))
	case Bool, Int, bigInt, Float:
		n, _ := number(v)
		return s.number(n)
	}
	if err := present(v); err != nil {
		return "", err
	}
	return "", valueErrorf("'%s' has no format %q", v.typeName(), text)
}

func parseSpec(text string) (spec, error) {
	m := specPattern.FindStringSubmatch(text)
	if m == nil {
		return spec{}, valueErrorf("bad format %q", text)
	}
	s := spec{fill: m[1], align: m[2], sign: m[3], alternate: m[4] != "", group: m[7], precision: -1, verb: m[9]}
	if m[5] != "" && s.align == "" {
		s.fill, s.align, s.zeros = "0", "=", true
	}
	if s.fill == "" {
		s.fill = " "
		if m[5] != "" {
			s.fill = "0"
		}
	}
	var err error
	if m[6] != "" {
		if s.width, err = strconv.Atoi(m[6]); err != nil || s.width > maxWidth {
			return spec{}, failf(KindLimit, "a format of width %s", m[6])
		}
	}
	if m[8] != "" {
		if s.precision, err = strconv.Atoi(m[8]); err != nil || s.precision > maxWidth {
			return spec{}, failf(KindLimit, "a format of precision %s", m[8])
		}
	}
	return s, nil
}

// text lays out a string.
func (s spec) text(v string) (string, error) {
	if s.verb != "" && s.verb != "s" || s.sign != "" || s.alternate || s.group != "" {
		return "", valueErrorf("a string has no such format")
	}
	if s.align == "=" {
		if !s.zeros {
			return "", valueErrorf("a string cannot be aligned with =")
		}
		s.align = "<"
	}
	if s.precision >= 0 && utf8.RuneCountInString(v) > s.precision {
		v = string([]rune(v)[:s.precision])
	}
	if s.align == "" {
		s.align = "<"
	}
	return s.pad("", v), nil
}

// number lays out a number: sign, prefix, grouped digits, fraction.
func (s spec) number(v Value) (string, error) {
	w, isWhole := whole(v)
	if s.verb == "s" || s.verb == "n" && s.group != "" || !isWhole && strings.ContainsAny(s.verb, "bcdoxX") {
		return "", valueErrorf("'%s' has no format %s%s", v.typeName(), s.group, s.verb)
	}
	if isWhole && (s.verb == "" || strings.ContainsAny(s.verb, "bcdnoxX")) {
		return s.whole(w)
	}
	f, err := toFloat(v)
	if err != nil {
		return "", err
	}
	return s.float(f), nil
}

func (s spec) whole(n *big.Int) (string, error) {
	if s.precision >= 0 {
		return "", valueErrorf("an integer has no precision")
	}
	base, prefix, step := 10, "", 3
	switch s.verb {
	case "c":
		if s.alternate {
			return "", valueErrorf("a character has no other form")
		}
		return s.character(n)
	case "b":
		base, prefix, step = 2, "0b", 4
	case "o":
		base, prefix, step = 8, "0o", 4
	case "x", "X":
		base, prefix, step = 16, "0"+s.verb, 4
	}
	if s.group == "," && base != 10 {
		return "", valueErrorf("only decimal numbers are grouped by commas")
	}
	if !s.alternate {
		prefix = ""
	}
	digits := new(big.Int).Abs(n).Text(base)
	if s.verb == "X" {
		digits = strings.ToUpper(digits)
	}
	lead := s.signOf(n.Sign() < 0) + prefix
	return s.layout(lead, digits, "", step), nil
}

func (s spec) character(n *big.Int) (string, error) {
	if !n.IsInt64() || n.Sign() < 0 || n.Int64() > utf8.MaxRune || !utf8.ValidRune(rune(n.Int64())) || s.sign != "" || s.group != "" {
		return "", valueErrorf("%s is not the number of a character", n)
	}
	return s.pad("", string(rune(n.Int64()))), nil
}

func (s spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case s.sign == "-":
		return ""
	}
	return s.sign
}

func (s spec) float(f float64) string {
	digits := s.floatDigits(math.Abs(f))
	whole, fraction := digits, ""
	if i := strings.IndexAny(digits, ".eE%"); i >= 0 && !math.IsInf(f, 0) && !math.IsNaN(f) {
		whole, fraction = digits[:i], digits[i:]
	}
	return s.layout(s.signOf(math.Signbit(f) && !math.IsNaN(f)), whole, fraction, 3)
}

func (s spec) floatDigits(f float64) string {
	verb, precision, suffix := s.verb, s.precision, ""
	if verb == "%" {
		verb, suffix = "f", "%"
		f *= 100
	}
	upper := verb == "E" || verb == "F" || verb == "G"
	if verb == "n" {
		verb = "g"
	}
	if precision < 0 {
		precision = 6
	}
	var out string
	switch {
	case math.IsNaN(f):
		out = "nan"
	case math.IsInf(f, 0):
		out = "inf"
	case verb == "" && s.precision < 0:
		out = formatFloat(f)
	case verb == "":
		out = general(f, max(precision, 1), -1, s.alternate)
		if !strings.ContainsAny(out, ".e") {
			out += ".0"
		}
	case strings.EqualFold(verb, "g"):
		out = general(f, max(precision, 1), 0, s.alternate)
	default:
		out = strconv.FormatFloat(f, strings.ToLower(verb)[0], precision, 64)
		if s.alternate && precision == 0 {
			out = withPoint(out)
		}
	}
	if upper {
		out = strings.ToUpper(out)
	}
	return out + suffix
}

// general has the given number of significant digits. It is without an
// exponent unless the number is small or has more digits before the point
// than that, give or take the slack.
func general(f float64, precision, slack int, keepZeros bool) string {
	scientific := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(scientific, "e")
	x, err := strconv.Atoi(exponent)
	if err != nil {
		return scientific
	}
	trim := func(digits string) string {
		if keepZeros {
			return withPoint(digits)
		}
		if strings.Contains(digits, ".") {
			digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
		}
		return digits
	}
	if x < -4 || x >= precision+slack {
		return trim(mantissa) + "e" + exponent
	}
	return trim(strconv.FormatFloat(f, 'f', precision-1-x, 64))
}

// withPoint ends the digits before an exponent with a point, if they have none.
func withPoint(digits string) string {
	if strings.Contains(digits, ".") {
		return digits
	}
	if i := strings.IndexByte(digits, 'e'); i >= 0 {
		return digits[:i] + "." + digits[i:]
	}
	return digits + "."
}

// layout groups the digits and pads to the width. Zeros that fill up the
// number itself are grouped with it.
func (s spec) layout(lead, digits, fraction string, step int) string {
	if s.align == "" {
		s.align = ">"
	}
	if s.group == "" {
		return s.pad(lead, digits+fraction)
	}
	if room := s.width - len(lead) - len(fraction); s.fill == "0" && s.align == "=" {
		n := len(digits)
		for n+(n-1)/step < room {
			n++
		}
		digits = strings.Repeat("0", n-len(digits)) + digits
	}
	return s.pad(lead, groupDigits(digits, s.group, step)+fraction)
}

func groupDigits(digits, mark string, step int) string {
	if strings.EqualFold(digits, "inf") || strings.EqualFold(digits, "nan") {
		return digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%step == 0 {
			b.WriteString(mark)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}

// pad fills up to the width; = puts the filling after the lead.
func (s spec) pad(lead, body string) string {
	missing := s.width - utf8.RuneCountInString(lead) - utf8.RuneCountInString(body)
	if missing <= 0 {
		return lead + body
	}
	fill := func(n int) string { return strings.Repeat(s.fill, n) }
	switch s.align {
	case "<":
		return lead + body + fill(missing)
	case "=":
		return lead + fill(missing) + body
	case "^":
		return fill(missing/2) + lead + body + fill(missing-missing/2)
	default:
		return fill(missing) + lead + body
	}
}
