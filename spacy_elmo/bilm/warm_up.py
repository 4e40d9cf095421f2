"""The text that a biLM reads once to leave the unusual state of having read nothing.

Published biLMs never saw a zero state after their first training batch. Which text it is hardly
matters (after a few sentences the state at a sentence's border depends little on the sentences),
but it is fixed, so that the state is a function of the weights alone.
"""

WARM_UP_TEXT = """
The city lies on both sides of a wide river .
In the morning the first trains bring people in from the villages around it .
Most of them work in offices , schools , shops and hospitals .
When it rains , the market moves into the old hall behind the station .
She asked him whether the report had been finished on time .
" I am not sure , " he said , " but they told me that it was . "
According to the company , sales rose by 4.5 percent in the last quarter of 2015 .
What would you do if nobody came to the meeting ?
The results , which were published in May , show a clear difference between the two groups .
He closed the door , sat down at the table and opened the letter .
There are many reasons for this , and only some of them are known .
We hope to see you again soon .
"""

WARM_UP_SENTENCES = [line.split() for line in WARM_UP_TEXT.strip().splitlines()]
