package document

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads one document of YAML 1.2. The library splits the text into
// pieces; what an unquoted piece means is decided here, by the core schema.
func (b *builder) parseYAML(doc string) (*Node, error) {
	tokens := lexer.Tokenize(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(doc))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err)
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); d.Body != nil && !directive {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, errors.New("is empty")
	case 1:
		t := &yamlTree{builder: b, anchors: map[string]anchor{}}
		return t.value(bodies[0], 0)
	}
	return nil, errors.New("has more than one document")
}

// checkTokens refuses what would keep the parser busy for long, and the
// documents it would lose: after an empty one it drops the next.
func checkTokens(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return fmt.Errorf("has more than %d words and signs; put long texts in a block", maxTokens)
	}
	headers := 0
	for _, t := range tokens {
		if t.Type == token.DocumentHeaderType {
			headers++
		}
	}
	if headers > 1 {
		return errors.New("has more than one document")
	}
	return nil
}

// syntaxError keeps the reason and the line of a parser's error and drops the
// excerpt of the file that comes with it.
func syntaxError(err error) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return errors.New("is not YAML")
	}
	line := 0
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	if strings.HasPrefix(syntax.GetMessage(), "found character '\t'") {
		return fmt.Errorf("has a tab where YAML takes no tab%s; use spaces", place("", line))
	}
	return fmt.Errorf("is not YAML: %s%s", syntax.GetMessage(), place("", line))
}

// yamlTree turns the library's tree into nodes.
type yamlTree struct {
	*builder
	anchors map[string]anchor
}

type anchor struct {
	node *Node
	size int // values in it
}

func (t *yamlTree) value(from ast.Node, depth int) (*Node, error) {
	if from == nil {
		return nil, errors.New("is empty")
	}
	at := from.GetToken().Position
	n, err := t.node(depth, at.Line, at.Column)
	if err != nil {
		return nil, err
	}
	switch v := from.(type) {
	case *ast.LiteralNode:
		n.Kind = String
		if n.Text, err = blockText(v.Start.Value, v.Value.Token.Origin, v.Value.Value); err != nil {
			err = fmt.Errorf("%w%s", err, n.place())
		}
	case *ast.NullNode:
		n.Kind = Null
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		err = t.setPlain(n, from.GetToken().Value)
	case *ast.StringNode:
		n.Kind, n.Text = String, v.Value
		if v.Token.Type == token.StringType {
			err = t.setPlain(n, v.Value)
		}
	case *ast.SequenceNode:
		err = t.list(n, v, depth)
	case *ast.MappingNode:
		err = t.entries(n, v.Values, depth)
	case *ast.MappingValueNode:
		err = t.entries(n, []*ast.MappingValueNode{v}, depth)
	case *ast.AnchorNode:
		return t.anchor(v, depth)
	case *ast.AliasNode:
		return t.alias(v, depth)
	case *ast.TagNode:
		err = fmt.Errorf("has a tag, which is not supported%s", n.place())
	default:
		err = fmt.Errorf("has something that is no value%s", n.place())
	}
	return n, err
}

// The core schema of YAML 1.2: what an unquoted scalar means. Everything else
// is a string, so yes, no, on, off, 2025-01-31, 12:30 and 1_000 are strings.
var (
	coreNull      = regexp.MustCompile(`^(~|null|Null|NULL)?$`)
	coreBool      = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	coreInteger   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreOctal     = regexp.MustCompile(`^0o[0-7]+$`)
	coreHex       = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	coreFloat     = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	coreNotFinite = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// setPlain gives a node the value of an unquoted scalar.
func (b *builder) setPlain(n *Node, written string) error {
	switch {
	case coreNull.MatchString(written):
		n.Kind = Null
	case coreBool.MatchString(written):
		n.Kind, n.Text = Bool, strings.ToLower(written)
	case coreInteger.MatchString(written):
		return b.setNumber(n, Integer, written, 10)
	case coreOctal.MatchString(written):
		return b.setNumber(n, Integer, written[2:], 8)
	case coreHex.MatchString(written):
		return b.setNumber(n, Integer, written[2:], 16)
	case coreFloat.MatchString(written):
		return b.setNumber(n, Number, written, 10)
	case coreNotFinite.MatchString(written):
		return fmt.Errorf("has a number that is not finite; quote it if it is a text%s", n.place())
	default:
		n.Kind, n.Text = String, written
	}
	return nil
}

func (t *yamlTree) list(n *Node, v *ast.SequenceNode, depth int) error {
	n.Kind = List
	for _, value := range v.Values {
		item, err := t.value(value, depth+1)
		if err != nil {
			return err
		}
		n.addItem(item)
	}
	return nil
}

func (t *yamlTree) entries(n *Node, values []*ast.MappingValueNode, depth int) error {
	n.Kind = Map
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		line := v.Key.GetToken().Position.Line
		key, err := t.key(v.Key, line)
		if err != nil {
			return err
		}
		value, err := t.value(v.Value, depth+1)
		if err != nil {
			return err
		}
		if err := t.addEntry(n, Entry{Key: key, Line: line, Value: value}, seen); err != nil {
			return err
		}
	}
	return nil
}

// key takes strings only. Merge keys (<<) are no part of YAML 1.2.
func (t *yamlTree) key(k ast.MapKeyNode, line int) (string, error) {
	if _, merge := k.(*ast.MergeKeyNode); merge {
		return "", fmt.Errorf("has a merge key (<<), which is not supported%s", place(t.File, line))
	}
	if s, ok := k.(*ast.StringNode); ok {
		n := &Node{Kind: String}
		if s.Token.Type != token.StringType || t.setPlain(n, s.Value) == nil && n.Kind == String {
			return s.Value, nil
		}
	}
	return "", fmt.Errorf("has a key that is not a string; quote it if it is one%s", place(t.File, line))
}

// anchor names a value once it is complete, so that no value can contain itself.
func (t *yamlTree) anchor(v *ast.AnchorNode, depth int) (*Node, error) {
	before := t.nodes
	n, err := t.value(v.Value, depth)
	if err != nil {
		return nil, err
	}
	t.anchors[v.Name.GetToken().Value] = anchor{n, t.nodes - before}
	return n, nil
}

// alias counts the value it stands for as if it were written out.
func (t *yamlTree) alias(v *ast.AliasNode, depth int) (*Node, error) {
	a, ok := t.anchors[v.Value.GetToken().Value]
	if !ok {
		return nil, fmt.Errorf("has an alias without an anchor before it%s", place(t.File, v.GetToken().Position.Line))
	}
	if err := t.count(a.size); err != nil {
		return nil, err
	}
	if depth+a.node.height() > maxDepth {
		return nil, fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	return a.node, nil
}
