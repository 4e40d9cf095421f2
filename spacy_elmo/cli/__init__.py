"""Commands of ``spacy elmo``: thin functions over the library."""
