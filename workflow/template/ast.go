package template

// at is the place of a node in the text.
type at int

func (a at) offset() int { return int(a) }

// expr is a part of an expression.
type expr interface {
	offset() int
	eval(r *run) (Value, error)
}

type (
	constExpr struct {
		at
		value Value
	}
	nameExpr struct {
		at
		name string
	}
	listExpr struct {
		at
		items []expr
		tuple bool
	}
	dictExpr struct {
		at
		keys, values []expr
	}
	attrExpr struct {
		at
		object expr
		name   string
	}
	itemExpr struct {
		at
		object, key expr
	}
	sliceExpr struct {
		at
		object           expr
		start, end, step expr // nil where left out
	}
	methodCall struct {
		at
		object expr
		name   string
		args   argList
	}
	globalCall struct {
		at
		function global
		args     argList
	}
	filterExpr struct {
		at
		object expr // nil in a block set: the block's text
		filter filter
		args   argList
	}
	testExpr struct {
		at
		object expr
		test   predicate
		args   argList
	}
	signExpr struct {
		at
		operand  expr
		negative bool
	}
	notExpr struct {
		at
		operand expr
	}
	binaryExpr struct {
		at
		op          string
		left, right expr
	}
	concatExpr struct {
		at
		parts []expr
	}
	logicExpr struct {
		at
		or          bool
		left, right expr
	}
	compareExpr struct {
		at
		first expr
		rest  []operand
	}
	choiceExpr struct {
		at
		test, yes expr
		no        expr // nil where left out
	}
)

// operand is a further member of a chain of comparisons.
type operand struct {
	op    string
	value expr
}

// argList is the arguments of a call, as written.
type argList struct {
	positional []expr
	names      []string // of the named ones
	named      []expr
}

// stmt is a part of a template.
type stmt interface {
	offset() int
	exec(r *run) error
}

type (
	textStmt struct {
		at
		text string
	}
	printStmt struct {
		at
		value expr
	}
	ifStmt struct {
		at
		branches  []branch
		otherwise []stmt
	}
	forStmt struct {
		at
		target    target
		items     expr
		filter    expr // nil if there is none
		body      []stmt
		otherwise []stmt
	}
	setStmt struct {
		at
		target target
		value  expr
	}
	setBlockStmt struct {
		at
		target  target
		filters []*filterExpr
		body    []stmt
	}
	withStmt struct {
		at
		targets []target
		values  []expr
		body    []stmt
	}
)

type branch struct {
	test expr
	body []stmt
}

// target is what a value is assigned to: a name, or several to take it apart.
type target struct {
	name  string
	parts []target // used when name is empty
}
