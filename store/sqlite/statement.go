package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// statement is prepared once and closed with its connection. It is the driver's
// own, because database/sql would take as long as a small statement itself.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// with prepares a statement unless it is prepared already, and passes it to use
// while nobody else can use the driver's connection.
func (c *conn) with(ctx context.Context, query string, use func(statement) error) error {
	return c.raw.Raw(func(raw any) error {
		if stmt, ok := c.stmts[query]; ok {
			return use(stmt)
		}
		preparer, ok := raw.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("a %T prepares no statement", raw)
		}
		made, err := preparer.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		stmt, ok := made.(statement)
		if !ok {
			return errors.Join(fmt.Errorf("a %T takes no context", made), made.Close())
		}
		c.stmts[query] = stmt
		return use(stmt)
	})
}

// exec executes a statement and counts the rows it touched.
func (c *conn) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	bound, err := bind(args)
	if err != nil {
		return 0, err
	}
	c.wrote = true
	err = c.with(ctx, query, func(stmt statement) error {
		result, err := stmt.ExecContext(ctx, bound)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	return n, err
}

// one reads the first row, if there is one.
func (c *conn) one(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	bound, err := bind(args)
	if err != nil {
		return false, err
	}
	c.wrote = c.wrote || !strings.HasPrefix(query, "SELECT")
	err = c.with(ctx, query, func(stmt statement) error {
		rows, err := stmt.QueryContext(ctx, bound)
		if err != nil {
			return err
		}
		values := make([]driver.Value, len(rows.Columns()))
		switch err = rows.Next(values); {
		case err == nil:
			found, err = true, scan(values, into)
		case errors.Is(err, io.EOF):
			err = nil
		}
		return errors.Join(err, rows.Close())
	})
	return found && err == nil, err
}

// bind converts arguments for the driver.
func bind(args []any) ([]driver.NamedValue, error) {
	bound := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		bound[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return bound, nil
}

// scan is what database/sql does for the types this package reads.
func scan(values []driver.Value, into []any) error {
	if len(values) != len(into) {
		return fmt.Errorf("%d columns for %d destinations", len(values), len(into))
	}
	for i, value := range values {
		ok := true
		switch p := into[i].(type) {
		case *int64:
			*p, ok = value.(int64)
		case *int:
			var n int64
			n, ok = value.(int64)
			*p = int(n)
		case *bool:
			var n int64
			n, ok = value.(int64)
			*p = n != 0
		case *string:
			*p, ok = value.(string)
		case *[]byte:
			*p, ok = value.([]byte)
			ok = ok || value == nil
		case *any:
			*p = value
		case sql.Scanner:
			if err := p.Scan(value); err != nil {
				return err
			}
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("column %d: a %T does not go into a %T", i+1, value, into[i])
		}
	}
	return nil
}
