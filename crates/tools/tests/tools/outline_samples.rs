//! One source file of each language, with its symbols.

/// Name, language, content and outline.
pub(crate) const FILES: &[(&str, &str, &str, &[&str])] = &[
    (
        "a.rs",
        "rust",
        "//! Words.\nmod away;\nmod near {\n    pub const LIMIT: u8 = 1;\n    static mut COUNT: u8 = 0;\n}\n\
         pub struct Point<T> {\n    x: T,\n}\nenum Side { Left, Right }\nunion Both { a: u8, b: i8 }\n\
         trait Draw {\n    type Pen;\n    fn draw(&self);\n}\n\
         impl<T> Draw for Point<T>\nwhere\n    T: Copy,\n{\n    type Pen = T;\n    fn draw(&self) {\n        \
         const HIDDEN: u8 = 1;\n        fn helper() {}\n    }\n}\n\
         impl Point<u8> {\n    pub async fn new() -> Self { todo!() }\n}\n\
         macro_rules! say { () => {} }\ntype Short = Point<u8>;\nextern \"C\" { fn outer(); }\nfn main() {}\n",
        &[
            "module away 2-2",
            "module near 3-6",
            "  constant LIMIT 4-4",
            "  variable COUNT 5-5",
            "struct Point 7-9",
            "enum Side 10-10",
            "union Both 11-11",
            "trait Draw 12-15",
            "  type Pen 13-13",
            "  method draw 14-14",
            "impl Draw for Point<T> 16-25",
            "  type Pen 20-20",
            "  method draw 21-24",
            "    function helper 23-23",
            "impl Point<u8> 26-28",
            "  method new 27-27",
            "macro say 29-29",
            "type Short 30-30",
            "function outer 31-31",
            "function main 32-32",
        ],
    ),
    (
        "a.py",
        "python",
        "LIMIT = 1\nquiet = 2\n_Seen: int = 3\nA_B, C = 1, 2\n\n@cached\ndef run(x):\n    HIDDEN = 1\n    \
         def inner():\n        pass\n    return inner\n\nclass Box(Base):\n    SIZE: int = 3\n\n    \
         async def open(self):\n        pass\n\ntype Pair = tuple[int, int]\n",
        &[
            "constant LIMIT 1-1",
            "function run 7-11",
            "  function inner 9-10",
            "class Box 13-17",
            "  constant SIZE 14-14",
            "  method open 16-17",
            "type Pair 19-19",
        ],
    ),
    (
        "a.js",
        "javascript",
        "const { a, b } = require('x');\nconst limit = 1, go = async () => {\n  const local = 2;\n  \
         const inner = function () {};\n};\nexport function* numbers() {}\nexport default class Box extends Base {\n  \
         #secret = 1;\n  handle = () => {};\n  constructor() { super(); }\n  static get size() { return 1; }\n}\n\
         exports.run = function () {};\nBox.prototype.fly = () => 1;\nlet Made = class {};\nif (limit) { let hidden = 1; }\n\
         it('works', () => { call(); });\n",
        &[
            "variable limit 2-2",
            "function go 2-5",
            "  function inner 4-4",
            "function numbers 6-6",
            "class Box 7-12",
            "  method handle 9-9",
            "  method constructor 10-10",
            "  method size 11-11",
            "function exports.run 13-13",
            "function Box.prototype.fly 14-14",
            "class Made 15-15",
        ],
    ),
    (
        "a.ts",
        "typescript",
        "export interface Shape<T> {\n  area(): number;\n  name: string;\n}\ntype Id = string;\nenum Side { Left }\n\
         abstract class Base {\n  private go = async (): Promise<void> => {};\n  abstract stop(): void;\n  run(x?: number) {}\n}\n\
         namespace Deep.Er {\n  export const inside = 1;\n  export function help(): void {}\n}\n\
         declare module 'other' {\n  function far(): void;\n}\ndeclare const given: number;\nexport const map = <T,>(x: T) => x;\n",
        &[
            "interface Shape 1-4",
            "  method area 2-2",
            "type Id 5-5",
            "enum Side 6-6",
            "class Base 7-11",
            "  method go 8-8",
            "  method stop 9-9",
            "  method run 10-10",
            "module Deep.Er 12-15",
            "  variable inside 13-13",
            "  function help 14-14",
            "module 'other' 16-18",
            "  function far 17-17",
            "variable given 19-19",
            "function map 20-20",
        ],
    ),
    (
        "a.tsx",
        "tsx",
        "export const Button = ({ text }: Props) => {\n  return <button>{text}</button>;\n};\nfunction App() { return <Button text=\"a\" />; }\n",
        &["function Button 1-3", "function App 4-4"],
    ),
    (
        "a.jsx",
        "javascript",
        "function App() { return <p>{1}</p>; }\n",
        &["function App 1-1"],
    ),
    (
        "a.go",
        "go",
        "package a\n\nconst (\n\tOne, Two = 1, 2\n\tThree    = 3\n)\n\nvar x, y int\n\ntype Server[T any] struct {\n\tname string\n}\n\n\
         type Runner interface {\n\tRun() error\n}\n\ntype Alias = int\ntype Count int\n\nfunc (s *Server[T]) Start() {\n\tvar hidden int\n}\n\n\
         func (c Count) Add() {}\n\nfunc main() {}\n",
        &[
            "constant One 4-4",
            "constant Two 4-4",
            "constant Three 5-5",
            "variable x 8-8",
            "variable y 8-8",
            "struct Server 10-12",
            "interface Runner 14-16",
            "  method Run 15-15",
            "type Alias 18-18",
            "type Count 19-19",
            "method (*Server[T]).Start 21-23",
            "method Count.Add 25-25",
            "function main 27-27",
        ],
    ),
    (
        "A.java",
        "java",
        "package a;\n\npublic class A<T> extends B {\n    int x;\n    A() {}\n    @Override\n    public int get() { return x; }\n    \
         enum Side { LEFT; void turn() {} }\n    record Pair(int a, int b) { Pair {} }\n    interface Go { void go(); }\n    \
         @interface Mark { int value(); }\n}\n",
        &[
            "class A 3-12",
            "  method A 5-5",
            "  method get 6-7",
            "  enum Side 8-8",
            "    method turn 8-8",
            "  class Pair 9-9",
            "    method Pair 9-9",
            "  interface Go 10-10",
            "    method go 10-10",
            "  interface Mark 11-11",
            "    method value 11-11",
        ],
    ),
    (
        "a.c",
        "c",
        "#ifndef A_H\n#define A_H\n#define LIMIT 3\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\nstruct point { int x; };\n\
         struct point *later;\ntypedef struct { int y; } Box, *BoxPointer;\nunion both { int a; char b; };\nenum side { LEFT };\n\
         static int (*callback)(int), numbers[3];\nint add(int a, int b);\nstatic char *name(void)\n{\n    int hidden;\n    \
         int local(void);\n    return 0;\n}\n#endif\n",
        &[
            "constant LIMIT 3-3",
            "macro MAX 4-4",
            "struct point 5-5",
            "variable later 6-6",
            "struct Box 7-7",
            "struct BoxPointer 7-7",
            "union both 8-8",
            "enum side 9-9",
            "variable callback 10-10",
            "variable numbers 10-10",
            "function add 11-11",
            "function name 12-17",
        ],
    ),
    (
        "a.cpp",
        "cpp",
        "namespace a::b {\nclass Shape : public Base {\n  public:\n    Shape();\n    ~Shape();\n    virtual int area(int) const = 0;\n    \
         operator bool() const;\n    Shape &operator=(const Shape &other) { return *this; }\n    int size;\n    \
         enum class Side { Left };\n};\n}\n\ntemplate <class T> T *make() { return nullptr; }\nint Shape::area(int) const { int x(3); return x; }\n\
         using Id = int;\ntemplate <class T> concept Small = true;\nextern \"C\" { void outer(void); }\n",
        &[
            "module a::b 1-12",
            "  class Shape 2-11",
            "    method Shape 4-4",
            "    method ~Shape 5-5",
            "    method area 6-6",
            "    method operator bool 7-7",
            "    method operator= 8-8",
            "    enum Side 10-10",
            "function make 14-14",
            "function Shape::area 15-15",
            "type Id 16-16",
            "type Small 17-17",
            "function outer 18-18",
        ],
    ),
    (
        "plain.h",
        "cpp",
        "int add(int a, int b);\n",
        &["function add 1-1"],
    ),
    (
        "only.h",
        "c",
        "int class(int template, int new);\n",
        &["function class 1-1"],
    ),
    (
        "plus.h",
        "cpp",
        "class Box {\n  public:\n    int open();\n};\n",
        &["class Box 1-4", "  method open 3-3"],
    ),
    (
        "bin/run",
        "python",
        "#!/usr/bin/env python3\ndef main():\n    pass\n",
        &["function main 2-3"],
    ),
];
