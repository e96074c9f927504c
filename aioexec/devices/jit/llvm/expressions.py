"""The expression language of kernel bodies: from text to typed, straight-line LLVM IR.

A body is statements "z = x + y; w = exp(z)" in Python's syntax: names, literals, arithmetic, comparisons, `& | ~`, and calls
of primitives (one or a few instructions each, `primitives`) or of functions written in this same language (`math`). Every name
has one dtype and nothing is converted silently, except that a literal takes the dtype of the operand beside it.

A function of the language becomes an LLVM function of its own, inlined by LLVM. So a body is translated once, however often a
loop nest repeats it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.devices.jit import syntax
from aioexec.devices.jit.llvm import math, primitives, routines
from aioexec.devices.jit.llvm.ir import INTEGERS, LLVM_TYPES, SHORT_FLOATS, SIGNED, Code, Number, Value
from aioexec.graph.kernels.kernel import ElementwiseKernel

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "floormod",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
UNARY = {ast.USub: "neg", ast.Invert: "invert"}
COMPARISONS = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


class BodyError(ValueError):
    """A kernel body is not in the expression language: an error in the op's row, not of the caller."""


@dataclass(slots=True)
class Module:
    """The functions and declarations of one LLVM module, all for vectors of the same number of lanes.

    Attributes:
        functions, declarations: symbol to text.
        results: symbol of a function to the dtype of its result and its weight.
        register: see `Code`.
    """

    lanes: int
    register: int = 0
    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[str, int]] = field(default_factory=dict)

    def declare(self, symbol: str, text: str) -> None:
        self.declarations[symbol] = text

    def code(self) -> Code:
        return Code(self.lanes, self.declarations, self.register)

    def instance(self, definition: math.Definition, dtypes: Sequence[str]) -> str:
        """The symbol of a function of the language for arguments of these dtypes; translated on first use."""
        symbol = f'@"{definition.name}.{".".join(dtypes)}.v{self.lanes}"'
        if symbol not in self.functions:
            self.functions[symbol] = ""  # a function that called itself would find this, and fail to parse
            parameters = {
                name: Value(dtype, f"%p{index}")
                for index, (name, dtype) in enumerate(zip(definition.parameters, dtypes, strict=True))
            }
            translator = Translator(self, self.code(), definition.source, dict(parameters))
            result = translator.function(definition.body)
            code = translator.code
            if code.failures:
                raise BodyError(f"function {definition.name!r}: a checked division belongs in a kernel body")
            header = f"define internal {code.type(result.dtype)} {symbol}"
            arguments = ", ".join(map(code.typed, parameters.values()))
            self.results[symbol] = result.dtype, code.weight
            self.functions[symbol] = "\n".join(
                [
                    f"{header}({arguments}) alwaysinline nounwind {{",
                    *code.lines,
                    f"  ret {code.typed(result)}",
                    "}",
                ]
            )
        return symbol


@dataclass(slots=True)
class Translator:
    """Turns the statements of one body or function into code. `names` grows with each assignment."""

    module: Module
    code: Code
    source: str
    names: dict[str, Value]

    def fail(self, node: ast.AST, message: str) -> BodyError:
        segment = ast.get_source_segment(self.source, node) or ""
        column = getattr(node, "col_offset", 0)
        return BodyError(f"kernel body {self.source!r}: {message}, at column {column}: {segment!r}")

    def assign(self, statement: ast.stmt, targets: Mapping[str, str]) -> None:
        """Translate "name = expression"; a literal alone takes the dtype `targets` gives the name."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                result = self.evaluate(expression)
                if not isinstance(result, Value):
                    if name not in targets:
                        raise self.fail(statement, f"{name!r} is only a literal and has no dtype")
                    result = self.code.constant(result, targets[name])
                self.names[name] = result
            case _:
                raise self.fail(statement, "expected 'name = expression'")

    def function(self, body: Sequence[ast.stmt]) -> Value:
        """Translate assignments and a final return."""
        *assignments, last = body
        for statement in assignments:
            self.assign(statement, {})
        if not isinstance(last, ast.Return) or last.value is None:
            raise self.fail(last, "expected 'return expression' at the end")
        result = self.evaluate(last.value)
        if not isinstance(result, Value):
            raise self.fail(last, "a function returns more than a literal")
        return result

    def evaluate(self, node: ast.expr) -> Value | Number:
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Name(id="inf" | "nan" as name):
                return float(name)
            case ast.Name(id=name):
                raise self.fail(node, f"unknown name {name!r}")
            case ast.Constant(value=bool() | int() | float() as number):
                return number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return self.apply(node, BINARY[type(op)], [left, right])
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return self.apply(node, UNARY[type(op)], [operand])
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return self.apply(node, COMPARISONS[type(op)], [left, right])
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self.call(node, name, arguments)
            case _:
                raise self.fail(node, f"{type(node).__name__} is not part of the language")

    def call(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> Value | Number:
        match name, arguments:
            case (("cast" | "bitcast"), [operand, ast.Constant(value=str() as dtype)]):
                return self.convert(node, name, operand, dtype)
            case "like", [operand, literal]:
                return self.like(node, self.evaluate(operand), self.evaluate(literal))
            case "libm", [ast.Constant(value=str() as function), *operands]:
                return self.repaired(function, [self.evaluate(operand) for operand in operands])
            case "otherwise", [ast.Constant(value=str() as function), *operands]:
                return self.otherwise(node, function, [self.evaluate(operand) for operand in operands])
            case _ if name in primitives.PRIMITIVES:
                return self.apply(node, name, arguments)
            case _ if name in math.names():
                return self.apply_function(node, name, [self.evaluate(argument) for argument in arguments])
            case _:
                raise self.fail(node, f"unknown function {name!r}")

    def apply(self, node: ast.expr, name: str, arguments: Sequence[ast.expr]) -> Value | Number:
        """Apply a primitive, or the function of the language it is made of for these dtypes."""
        operands = [self.evaluate(argument) for argument in arguments]
        if not any(isinstance(operand, Value) for operand in operands):
            folded = primitives.fold(name, operands)  # type: ignore[arg-type]
            if folded is None:
                raise self.fail(node, f"{name!r} of literals alone")
            return folded
        try:
            result = primitives.apply(self.code, name, operands)
        except (ValueError, TypeError) as error:
            raise self.fail(node, str(error)) from error
        if isinstance(result, primitives.Deferred):
            return self.apply_function(node, result.function, result.operands)
        return result

    def apply_function(self, node: ast.expr, name: str, operands: Sequence[Value | Number]) -> Value:
        """Call a function of the language; short floats are computed as float32."""
        dtypes = {operand.dtype for operand in operands if isinstance(operand, Value)}
        if name == "pow" and dtypes <= INTEGERS:
            return self.whole_power(operands)
        short = dtypes & SHORT_FLOATS
        if len(dtypes) == 1 and short:
            wide = [
                primitives.cast(self.code, value, "float32")
                for value in primitives.unify(self.code, operands)
            ]
            result = self.apply_function(node, name, wide)
            return primitives.cast(self.code, result, *short) if result.dtype == "float32" else result
        try:
            definition, wanted = math.resolve(name, [getattr(operand, "dtype", None) for operand in operands])
            values = [
                operand if isinstance(operand, Value) else self.code.constant(operand, dtype)
                for operand, dtype in zip(operands, wanted, strict=True)
            ]
            symbol = self.module.instance(definition, wanted)
        except BodyError as error:
            raise self.fail(node, f"{name!r} is not defined for {sorted(dtypes)}") from error
        except ValueError as error:
            raise self.fail(node, str(error)) from error
        dtype, weight = self.module.results[symbol]
        return self.code.call(symbol, dtype, *values, weight=weight)

    def convert(self, node: ast.expr, name: str, operand: ast.expr, dtype: str) -> Value:
        value = self.evaluate(operand)
        if dtype not in LLVM_TYPES:
            raise self.fail(node, f"unknown dtype {dtype!r}")
        if not isinstance(value, Value):
            return self.code.constant(value, dtype)
        try:
            return (primitives.cast if name == "cast" else primitives.bitcast)(self.code, value, dtype)
        except ValueError as error:
            raise self.fail(node, str(error)) from error

    def like(self, node: ast.expr, value: Value | Number, literal: Value | Number) -> Value:
        """`like(x, 1)`: a literal with the dtype of x, where no other operand gives it one."""
        if not isinstance(value, Value) or isinstance(literal, Value):
            raise self.fail(node, "expected 'like(value, literal)'")
        return self.code.constant(literal, value.dtype)

    def repaired(self, function: str, operands: Sequence[Value | Number]) -> Value:
        """`libm("sinf", x, y, c)`: y, but the C library's sinf(x) in lanes where c holds; one branch if there are none."""
        values = [operand for operand in operands if isinstance(operand, Value)]
        symbol = f"@repair.{function}.v{self.code.lanes}"
        if symbol not in self.module.functions:
            self.module.declarations |= routines.rare_function(function)
            self.module.declare(*routines.any_lane(self.code.lanes))
            item = LLVM_TYPES[values[0].dtype]
            self.module.functions[symbol] = routines.repair_function(
                function, len(values) - 2, self.code.lanes, item
            )
        return self.code.call(symbol, values[0].dtype, *values)

    def otherwise(self, node: ast.Call, function: str, operands: Sequence[Value | Number]) -> Value:
        """`otherwise("f", x, bits)`: x, but if any lane of `bits` is not 0, f(x) in all of them.

        For expensive functions that are often unnecessary: f must return exactly x in every lane where `bits` is 0.
        """
        match operands:
            case [Value() as x, Value() as bits] if bits.dtype in INTEGERS:
                symbol = f"@otherwise.{function}.{x.dtype}.v{self.code.lanes}"
            case _:
                raise self.fail(node, "expected 'otherwise(function, value, integer)'")
        definition, wanted = math.resolve(function, [x.dtype])
        inner = self.module.instance(definition, wanted)
        types = LLVM_TYPES[x.dtype], LLVM_TYPES[bits.dtype]
        text, reduction = routines.otherwise_function(symbol, inner, self.code.lanes, *types)
        self.module.declare(*reduction)
        self.module.functions[symbol] = text
        _, weight = self.module.results[inner]
        return self.code.call(symbol, x.dtype, x, bits, weight=weight)

    def whole_power(self, operands: Sequence[Value | Number]) -> Value:
        """Integer x to the power of y; a lane with a negative exponent fails and gives 0."""
        x, y = primitives.unify(self.code, operands)
        zero = self.code.constant(0, y.dtype)
        symbol = f"@power.{y.dtype}.v{self.code.lanes}"
        self.module.declare(*routines.any_lane(self.code.lanes))
        self.module.functions[symbol] = routines.power_function(y.dtype, self.code.lanes)
        power = self.code.call(symbol, x.dtype, x, y, weight=30)
        if y.dtype not in SIGNED:
            return power
        negative = self.code.binary("icmp slt", "bool", y, zero)
        self.code.failures.append(negative)
        return self.code.select(negative, zero, power)


@dataclass(frozen=True, slots=True)
class Body:
    """A translated kernel body: an LLVM function.

    Attributes:
        lanes: the width of its vectors, which its symbol ends with.
        fallible: whether it reports failed lanes beside its outputs.
        weight: the cost of one vector, in vector instructions.
        chain: the cost of the longest chain of dependent statements.
    """

    lanes: int
    text: str
    result_type: str
    fallible: bool
    weight: int
    chain: int

    @property
    def symbol(self) -> str:
        return f"@body.v{self.lanes}"


def translate(kernel: ElementwiseKernel, module: Module, streams: int = 1) -> Body:
    """Translate a kernel's body into a function: inputs to a struct of outputs, then failed lanes if any can fail.

    Args:
        streams: vectors of the module's lanes that make up an operand. Each statement is emitted for one after another, so
            that the processor overlaps their latencies.

    Raises:
        BodyError: the body is not in the language, or does not fit the declared operands.
    """
    whole, code = Code(module.lanes * streams, module.declarations), module.code()
    parameters = {name: Value(dtype, f"%p{index}") for index, (name, dtype) in enumerate(kernel.inputs)}
    if len(parameters) != len(kernel.inputs):
        raise BodyError(f"kernel body {kernel.body!r}: two inputs of one name among {kernel.inputs!r}")
    try:
        statements = syntax.parse(kernel.body).body
    except SyntaxError as error:
        raise BodyError(f"kernel body {kernel.body!r}: {error.msg}, at column {error.offset}") from error
    translators = [
        Translator(
            module,
            code,
            kernel.body,
            {name: code.part(value, k, streams) for name, value in parameters.items()},
        )
        for k in range(streams)
    ]
    failures: list[list[Value]] = [[] for _ in translators]
    chains: dict[str, int] = {}
    for statement in statements:
        before = code.weight
        for translator, failed in zip(translators, failures, strict=True):
            translator.assign(statement, dict(kernel.outputs))
            failed += code.failures
            code.failures.clear()
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        longest = max(chains.get(name.id, 0) for name in names) + code.weight - before
        chains |= {name.id: longest for name in names if isinstance(name.ctx, ast.Store)}
    results = [
        code.joined([output_value(translator, name, dtype) for translator in translators])
        for name, dtype in kernel.outputs
    ]
    fallible = bool(failures[0])
    if fallible:
        results.append(code.joined([functools.reduce(code.either, failed) for failed in failures]))
    result_type, aggregate = gathered(results, whole, code)
    arguments = ", ".join(map(whole.typed, parameters.values()))
    header = f"define internal {result_type} @body.v{whole.lanes}({arguments}) alwaysinline nounwind {{"
    text = "\n".join([header, *code.lines, f"  ret {result_type} {aggregate}", "}"])
    return Body(whole.lanes, text, result_type, fallible, code.weight, max(chains.values(), default=0))


def gathered(results: Sequence[Value], whole: Code, code: Code) -> tuple[str, str]:
    """Put results into a struct: its type, and its name."""
    kind = "{ " + ", ".join(whole.type(result.dtype) for result in results) + " }"
    aggregate = "poison"
    for index, result in enumerate(results):
        code.lines.append(f"  %r{index} = insertvalue {kind} {aggregate}, {whole.typed(result)}, {index}")
        aggregate = f"%r{index}"
    return kind, aggregate


def output_value(translator: Translator, name: str, dtype: str) -> Value:
    """The value a body computed for one of the kernel's outputs."""
    value = translator.names.get(name)
    if value is None:
        raise BodyError(f"kernel body {translator.source!r}: output {name!r} is never assigned")
    if value.dtype != dtype:
        raise BodyError(
            f"kernel body {translator.source!r}: output {name!r} is {value.dtype}, expected {dtype}"
        )
    return value
