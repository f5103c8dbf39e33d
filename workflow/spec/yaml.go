package spec

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

// maxTokens bounds the parser, whose time grows with the square of a mapping's
// keys and of how deep values nest: to a second or two. A block of text is one
// token however long it is.
const maxTokens = 40_000

// parseYAML reads one document of YAML 1.2. The library parts the text into
// pieces; what an unquoted piece means is decided here, by the core schema.
func parseYAML(file, doc string) (*node, error) {
	tokens := lexer.Tokenize(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(doc))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err)
	}
	var bodies []ast.Node
	for _, d := range parsed.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); d.Body != nil && !directive {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, errors.New("is empty")
	case 1:
	default:
		return nil, errors.New("has more than one document")
	}
	b := &treeBuilder{file: file, anchors: map[string]*node{}}
	return b.node(bodies[0], 0)
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

// syntaxProblem keeps the reason and the line of a parser's error, without
// the excerpt of the file that comes along: it may show a secret.
func syntaxProblem(err error) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return errors.New("is not YAML")
	}
	line := 0
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return fmt.Errorf("is not YAML: %s%s", syntax.GetMessage(), placeOf("", line))
}

// treeBuilder turns a YAML tree into the part of it that JSON can hold.
type treeBuilder struct {
	file    string
	nodes   int
	anchors map[string]*node
}

func (b *treeBuilder) node(n ast.Node, depth int) (*node, error) {
	if n == nil {
		return nil, errors.New("is empty")
	}
	made := &node{file: b.file, line: n.GetToken().Position.Line}
	if b.nodes++; b.nodes > maxNodes {
		return nil, errNodes()
	}
	if depth > maxDepth {
		return nil, errDepth()
	}
	var err error
	switch v := n.(type) {
	case *ast.LiteralNode:
		made.kind = text
		made.text, err = blockText(v.Start.Value, v.Value.Token.Origin, v.Value.Value)
		if err != nil {
			err = fmt.Errorf("%w%s", err, made.place())
		}
	case *ast.NullNode:
		made.kind = null
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		err = made.plain(n.GetToken().Value)
	case *ast.StringNode:
		made.kind, made.text = text, v.Value
		if v.Token.Type == token.StringType {
			err = made.plain(v.Value)
		}
	case *ast.SequenceNode:
		err = b.list(made, v, depth)
	case *ast.MappingNode:
		err = b.object(made, v.Values, depth)
	case *ast.MappingValueNode:
		err = b.object(made, []*ast.MappingValueNode{v}, depth)
	case *ast.AnchorNode:
		return b.anchor(v, depth)
	case *ast.AliasNode:
		return b.alias(v, depth)
	case *ast.TagNode:
		return nil, fmt.Errorf("has a tag (%s), which is not supported%s", v.Start.Value, made.place())
	default:
		return nil, fmt.Errorf("has something that is no value%s", made.place())
	}
	return made, err
}

// The core schema of YAML 1.2: what an unquoted scalar means. Everything else
// is a string, so yes, no, on, off, 2025-01-31, 12:30 and 1_000 are.
var (
	coreNull    = regexp.MustCompile(`^(~|null|Null|NULL)?$`)
	coreBool    = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	coreInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreOctal   = regexp.MustCompile(`^0o[0-7]+$`)
	coreHex     = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	coreFloat   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	coreNoJSON  = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// plain gives a node the value of an unquoted scalar.
func (n *node) plain(written string) error {
	switch {
	case coreNull.MatchString(written):
		n.kind = null
	case coreBool.MatchString(written):
		n.kind, n.yes = boolean, written[0] == 't' || written[0] == 'T'
	case coreInteger.MatchString(written):
		return n.setNumber(integer, written, 10)
	case coreOctal.MatchString(written):
		return n.setNumber(integer, written[2:], 8)
	case coreHex.MatchString(written):
		return n.setNumber(integer, written[2:], 16)
	case coreFloat.MatchString(written):
		return n.setNumber(float, written, 10)
	case coreNoJSON.MatchString(written):
		return fmt.Errorf("has a number that is not finite; quote it if it is a text%s", n.place())
	default:
		n.kind, n.text = text, written
	}
	return nil
}

func (b *treeBuilder) list(n *node, v *ast.SequenceNode, depth int) error {
	n.kind = list
	for _, value := range v.Values {
		item, err := b.node(value, depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func (b *treeBuilder) object(n *node, values []*ast.MappingValueNode, depth int) error {
	n.kind = object
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		line := v.Key.GetToken().Position.Line
		key, err := b.key(v.Key, line)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("has the key %q twice%s", key, placeOf(b.file, line))
		}
		seen[key] = true
		value, err := b.node(v.Value, depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key: key, line: line, value: value})
	}
	return nil
}

// key takes strings only. Merge keys (<<) are no part of YAML 1.2.
func (b *treeBuilder) key(k ast.MapKeyNode, line int) (string, error) {
	if _, merge := k.(*ast.MergeKeyNode); merge {
		return "", fmt.Errorf("has a merge key (<<), which is not supported%s", placeOf(b.file, line))
	}
	if s, ok := k.(*ast.StringNode); ok {
		if s.Token.Type != token.StringType {
			return s.Value, nil
		}
		var as node
		if err := as.plain(s.Value); err == nil && as.kind == text {
			return s.Value, nil
		}
	}
	return "", fmt.Errorf("has a key that is not a string; quote it if it is one%s", placeOf(b.file, line))
}

// anchor names a value once it is whole, so that no value can hold itself.
func (b *treeBuilder) anchor(v *ast.AnchorNode, depth int) (*node, error) {
	n, err := b.node(v.Value, depth)
	if err != nil {
		return nil, err
	}
	b.anchors[v.Name.GetToken().Value] = n
	return n, nil
}

// alias counts what it stands for as if it were written out.
func (b *treeBuilder) alias(v *ast.AliasNode, depth int) (*node, error) {
	n, ok := b.anchors[v.Value.GetToken().Value]
	if !ok {
		return nil, fmt.Errorf("has an alias without an anchor before it%s", placeOf(b.file, v.GetToken().Position.Line))
	}
	size, height := n.extent(maxNodes)
	if b.nodes += size; b.nodes > maxNodes {
		return nil, errNodes()
	}
	if depth+height > maxDepth {
		return nil, errDepth()
	}
	return n, nil
}

// extent is the number of values in a node and how deep they nest. It stops
// counting beyond most.
func (n *node) extent(most int) (size, height int) {
	size = 1
	add := func(inner *node) {
		if size > most {
			return
		}
		s, h := inner.extent(most - size)
		size, height = size+s, max(height, h+1)
	}
	for _, item := range n.items {
		add(item)
	}
	for _, e := range n.entries {
		add(e.value)
	}
	return size, height
}
